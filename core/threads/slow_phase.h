// A phase of work that says its name once it has lasted a second, so that nobody looks at silence and wonders: "timing
// kernels ...". Short phases say nothing.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace moka {

// Lives as long as the phase. Its thread only waits; where the constructing thread is quiet (QuietScope), so is it.
class SlowPhase {
 public:
  explicit SlowPhase(std::string name);
  SlowPhase(const SlowPhase&) = delete;
  SlowPhase& operator=(const SlowPhase&) = delete;
  ~SlowPhase();

 private:
  void Watch();

  std::string name_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread watcher_;
};

}  // namespace moka
