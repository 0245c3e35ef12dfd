// A gate in a stream's way: work behind it waits until the test opens it.
#pragma once

#include <atomic>

namespace moka {

// Requires: it outlives the streams it stands in. Opened at the latest when it goes.
class Gate {
 public:
  Gate() = default;
  ~Gate() { Open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void Open() {
    is_open_ = 1;
    is_open_.notify_all();
  }
  // For Stream::Call.
  static void Pass(void* gate) { static_cast<Gate*>(gate)->is_open_.wait(0); }

 private:
  std::atomic<uint32_t> is_open_ = 0;
};

}  // namespace moka
