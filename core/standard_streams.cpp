#include "core/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array kStreamSignals = {SIGPIPE, SIGXFSZ};

}  // namespace

void PrepareStandardStreams() {
  for (const int signal : kStreamSignals) std::signal(signal, SIG_IGN);
  // /dev/null opened for reading takes no results: who asks for them with standard output closed is told.
  constexpr std::array kModes = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest that is free is what open() returns, and those below are open by now.
    if (open("/dev/null", kModes.at(static_cast<size_t>(fd))) != fd) return;  // no /dev: nothing more can be done
  }
}

sigset_t StreamSignals() {
  sigset_t set{};
  sigemptyset(&set);
  for (const int signal : kStreamSignals) sigaddset(&set, signal);
  return set;
}

void RestoreStreamSignals() {
  for (const int signal : kStreamSignals) std::signal(signal, SIG_DFL);
}

void FlushStandardOutput() {
  errno = 0;
  const bool has_failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!has_failed) return;
  const int reason = errno;
  throw Error(ErrorKind::kIo,
              StrCat("cannot write to standard output",
                     reason == 0 ? std::string()
                                 : StrCat(": ", std::strerror(reason))));  // NOLINT(concurrency-mt-unsafe): glibc's
}

}  // namespace moka
