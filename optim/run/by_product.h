// By-products that a training makes beside its checkpoints and its log: plots, TensorBoard's events, results.csv, grids
// of samples. One that cannot be made is a warning, once, and no end of the training.
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace moka {

class ByProduct {
 public:
  // `what` as the warning names it: "plots".
  explicit ByProduct(std::string what) : what_(std::move(what)) {}

  // Runs what makes it. After a failure the next call tries again: a disk may have room by then.
  template <class Make>
  void Try(Make&& make) {
    try {
      make();
    } catch (const std::exception& error) {
      Warn(error);
    }
  }

 private:
  void Warn(const std::exception& error);

  std::string what_;
  bool is_told_ = false;
};

}  // namespace moka
