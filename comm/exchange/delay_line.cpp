// A ring of delay + 1 slots, one an iteration, each as large as all gradients together. The sums of an iteration whose
// loss was not finite are skipped when they come of age; control values (losses, requests) are never delayed by more
// than one iteration.
#include "comm/exchange/delay_line.h"

#include <algorithm>

#include "core/error.h"

namespace moka {

DelayLine::DelayLine(std::vector<Tensor> tensors, std::vector<bool> is_control, int delay)
    : tensors_(std::move(tensors)), is_control_(std::move(is_control)) {
  Require(tensors_.size() == is_control_.size() && delay >= 0, "a delay line knows what each tensor is");
  begin_ = {0};
  for (const Tensor& tensor : tensors_) {
    begin_.push_back(begin_.back() + static_cast<size_t>(tensor.type().Bytes()) / sizeof(float));
  }
  slots_.assign(static_cast<size_t>(delay) + 1, std::vector<float>(begin_.back()));
  is_finite_.assign(slots_.size(), 1);
}

std::span<float> DelayLine::Values(int first, int last, int64_t iteration) {
  const size_t begin = begin_[static_cast<size_t>(first)];
  return std::span<float>(slots_[Slot(iteration)]).subspan(begin, begin_[static_cast<size_t>(last)] - begin);
}

void DelayLine::Put(int i, int64_t iteration) {
  std::ranges::copy(tensors_[static_cast<size_t>(i)].as<float>(), Values(i, i + 1, iteration).begin());
}

void DelayLine::Take(int i, int64_t begin, int64_t end, int64_t newest) {
  const std::span<float> to = tensors_[static_cast<size_t>(i)].as<float>();
  if (is_control_[static_cast<size_t>(i)]) {
    std::ranges::copy(Values(i, i + 1, newest - 1), to.begin());
    return;
  }
  std::ranges::fill(to, 0.0F);
  for (int64_t iteration = begin; iteration < end; ++iteration) {
    if (is_finite_[Slot(iteration)] == 0) continue;
    const std::span<const float> from = Values(i, i + 1, iteration);
    for (size_t k = 0; k < to.size(); ++k) to[k] += from[k];
  }
}

void DelayLine::Save(int i, int64_t iteration, std::span<float> values) const {
  const std::vector<float>& slot = slots_[Slot(iteration)];
  if (is_finite_[Slot(iteration)] == 0) {
    std::ranges::fill(values, 0.0F);
    return;
  }
  std::copy_n(slot.begin() + static_cast<std::ptrdiff_t>(begin_[static_cast<size_t>(i)]), values.size(),
              values.begin());
}

void DelayLine::Load(int i, int64_t iteration, std::span<const float> values) {
  std::ranges::copy(values, Values(i, i + 1, iteration).begin());
}

}  // namespace moka
