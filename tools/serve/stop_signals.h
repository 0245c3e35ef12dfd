// SIGINT, SIGTERM and SIGHUP (a terminal that is closed) as a stream that a thread reads: a server ends in steps, not
// where it stands.
#pragma once

namespace moka {

// While it lives, they wait to be read; SIGHUP not under nohup. One at a time.
class StopSignals {
 public:
  // Errors: kUnavailable.
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // Waits for the next; 0 once Wake was called.
  int Next();
  void Wake();

 private:
  int ends_[2] = {-1, -1};  // of a pipe that the handler writes to
};

}  // namespace moka
