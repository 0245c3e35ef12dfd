// Opens /dev/null in place of closed descriptors 0 to 2, so that no file ever gets one of them, and ignores SIGPIPE and
// SIGXFSZ, so that a write fails with a reason instead of ending the program.
#include "core/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "core/error.h"
#include "core/system_reason.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array kStreamSignals = {SIGPIPE, SIGXFSZ};

[[noreturn]] void FailOutput(int reason) {
  const std::string why = reason == 0 ? "" : StrCat(": ", SystemReason(reason));
  throw Error(ErrorKind::kIo, StrCat("cannot write to standard output", why));
}

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

void WriteStandardOutput(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) FailOutput(errno);
}

void FlushStandardOutput() {
  errno = 0;
  if (std::fflush(stdout) != 0) FailOutput(errno);
  if (std::ferror(stdout) != 0) FailOutput(0);
}

}  // namespace moka
