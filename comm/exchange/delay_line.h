// The sums that a training keeps of gradients that are applied some iterations after they were computed: the sums of
// the last iterations, one slot each. An update takes what has come of age, so each sum is taken once, whatever the
// delays do meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/tensor.h"

namespace moka {

class DelayLine {
 public:
  // tensors: float32, in the order of the exchange; is_control[i]: a loss or the like, of which the newest of age is
  // given, not gradients to be added. delay: the longest, in iterations.
  DelayLine(std::vector<Tensor> tensors, std::vector<bool> is_control, int delay);

  int delay() const { return static_cast<int>(slots_.size()) - 1; }
  // Copies tensor i into the slot of an iteration (numbered from 0 in this process). Requires: what that slot held
  // before, `delay() + 1` iterations ago, was taken.
  void Put(int i, int64_t iteration);
  // Where tensors [first, last) of an iteration lie, one behind the other.
  std::span<float> Values(int first, int last, int64_t iteration);
  // An iteration whose loss was not finite: its gradients count as zeros.
  void SetFinite(int64_t iteration, bool is_finite) { is_finite_[Slot(iteration)] = is_finite ? 1 : 0; }
  // Tensor i becomes the sum of iterations [begin, end), or that of newest - 1 if it is a control.
  void Take(int i, int64_t begin, int64_t end, int64_t newest);

  // The slot of an iteration as a checkpoint keeps it; iterations before 0 are those of the process before.
  void Save(int i, int64_t iteration, std::span<float> values) const;
  void Load(int i, int64_t iteration, std::span<const float> values);

 private:
  size_t Slot(int64_t iteration) const {
    const auto count = static_cast<int64_t>(slots_.size());
    return static_cast<size_t>(((iteration % count) + count) % count);
  }

  std::vector<Tensor> tensors_;
  std::vector<bool> is_control_;
  std::vector<size_t> begin_;  // of each tensor in a slot; one more
  std::vector<std::vector<float>> slots_;
  std::vector<uint8_t> is_finite_;  // by slot; whole bytes, as one is written while others are read
};

}  // namespace moka
