// SIGINT and SIGTERM as a stream that a thread reads: a server ends in steps, not where it stands.
#pragma once

namespace moka {

// While it lives, SIGINT and SIGTERM wait to be read. One at a time.
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
