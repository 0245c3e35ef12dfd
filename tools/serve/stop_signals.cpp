// A handler may do little; to write a byte to a pipe is allowed. A mask that all threads would have to inherit is not
// enough: threads of a team may be there before.
#include "tools/serve/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "core/error.h"

namespace moka {
namespace {

volatile sig_atomic_t g_pipe = -1;

extern "C" void WriteSignal(int signal) {
  const int kept = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = write(g_pipe, &byte, 1);
  errno = kept;
}

void Handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    const bool is_of_nohup = signal == SIGHUP && before.sa_handler == SIG_IGN;
    if (!is_of_nohup) sigaction(signal, &action, nullptr);
  }
}

}  // namespace

StopSignals::StopSignals() {
  if (pipe2(ends_, O_CLOEXEC) != 0) throw Error(ErrorKind::kUnavailable, "the system gives no pipe for signals");
  g_pipe = ends_[1];
  Handle(WriteSignal);
}

StopSignals::~StopSignals() {
  Handle(SIG_DFL);
  g_pipe = -1;
  close(ends_[0]);
  close(ends_[1]);
}

int StopSignals::Next() {
  unsigned char byte = 0;
  while (read(ends_[0], &byte, 1) < 0 && errno == EINTR) {
  }
  return byte;
}

void StopSignals::Wake() {
  const unsigned char none = 0;
  [[maybe_unused]] const auto written = write(ends_[1], &none, 1);
}

}  // namespace moka
