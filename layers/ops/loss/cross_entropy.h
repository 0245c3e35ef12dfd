// The part that the ops of softmax with integer labels share: softmax_loss (one sum) and softmax_losses (one loss a
// label).
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "layers/ops/cases.h"
#include "layers/ops/gradients.h"

namespace moka {

// y = softmax(x) along one line: `size` elements from `first` on, `step` apart.
inline void SoftmaxLine(std::span<const double> x, size_t first, size_t step, size_t size, std::span<double> y) {
  const auto at = [&](size_t c) { return first + c * step; };
  double max = x[first];
  for (size_t c = 1; c < size; ++c) max = std::max(max, x[at(c)]);
  double sum = 0;
  for (size_t c = 0; c < size; ++c) sum += y[at(c)] = std::exp(x[at(c)] - max);
  for (size_t c = 0; c < size; ++c) y[at(c)] /= sum;
}

// dx of an op (x, label) -> loss, valid, probability: through the loss by `backward` (probability, label, dloss), and
// through the probability. Which labels are valid does not depend on x.
inline void SetCrossEntropyDx(GradientContext& c, const std::string& backward) {
  if (!c.wants(0)) return;
  ValueId dx = kNoId;
  if (c.dy(0) != kNoId) dx = c.b().Add1(backward, {c.y(2), c.x(1), c.dy(0)}, c.attributes());
  if (c.dy(2) != kNoId) {
    const ValueId more = c.b().Add1("softmax_backward", {c.y(2), c.dy(2)}, Selected(c.attributes(), {"axis"}));
    dx = dx == kNoId ? more : c.b().Pointwise("x0+x1", {dx, more});
  }
  if (dx != kNoId) c.SetDx(0, dx);
}

struct CrossEntropyExample {
  const char* name;
  Shape x;
  Shape label;
  int64_t axis;
  double low, high;  // of labels
  bool has_ignore;
  int64_t ignore_label;
};

// The case of an example; with a shape of dloss that of the backward op, whose first input is a probability.
inline OpCase CrossEntropyCase(const CrossEntropyExample& e, const std::optional<Shape>& dloss) {
  OpCase c{.name = e.name,
           .inputs = {{DType::kFloat32, e.x, {}}, {DType::kFloat32, e.label, {}}},
           .attributes = {{"axis", e.axis}, {"has_ignore", e.has_ignore}, {"ignore_label", e.ignore_label}},
           .low = dloss ? 0.0 : -3.0,
           .high = dloss ? 1.0 : 3.0,
           .ranges = {{1, e.low, e.high}}};
  if (dloss) c.inputs.push_back({DType::kFloat32, *dloss, {}});
  return c;
}

}  // namespace moka
