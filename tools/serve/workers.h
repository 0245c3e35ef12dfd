// Threads for what takes milliseconds and no net: pictures are decoded and large texts read beside the connections,
// which go on meanwhile, and beside the net, which looks at others.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace moka {

// Any thread.
class Workers {
 public:
  explicit Workers(int threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // Ends once all work is done.
  ~Workers();

  // Work is begun in the order in which it came; what it throws is warned of.
  void Do(std::function<void()> work);
  // Milliseconds, about, until work that comes now is begun.
  double WaitMs() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  int threads_;
  std::atomic<int> waiting_ = 0;     // and running
  std::atomic<double> work_ms_ = 1;  // of one, a mean of the last ones
};

}  // namespace moka
