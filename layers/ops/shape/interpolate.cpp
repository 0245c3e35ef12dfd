// Bilinear interpolation of planes with aligned corners (DeepLab's and PSPNet's Interp): y[i,j] is x at
// (i (H-1)/(h-1), j (W-1)/(w-1)), so corners stay corners. It is linear in x; the gradient is the transposed map, whose
// gradient is the interpolation again.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"
#include "layers/ops/shape/taps.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

// x [N,C,H,W] with its planes resized to the attribute `size`.
std::vector<TensorType> InferResized(std::string_view op, const Attributes& attributes,
                                     std::span<const TensorType> in) {
  CheckInputCount(op, in, 1, 1);
  CheckFloat(op, "x", in[0]);
  const Shape& x = in[0].shape;
  const Shape size = ShapeAttribute(op, attributes, "size");
  if (x.rank() != 4 || x.Count() == 0 || size.rank() != 2 || size[0] < 1 || size[1] < 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [N,C,H,W] and size two numbers of at least 1, found ",
                                           x.ToString(), " and ", size.ToString()));
  }
  // The taps multiply a point's number with a size.
  if (std::max({x[2], x[3], size[0], size[1]}) > INT32_MAX) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": planes are limited to 2^31-1 a side, found ", x.ToString()));
  }
  return {PlainType(in[0].dtype, x.With(2, size[0]).With(3, size[1]))};
}

std::vector<TensorType> InferInterpolate(const Attributes& attributes, std::span<const TensorType> in) {
  return InferResized("interpolate", attributes, in);
}
std::vector<TensorType> InferInterpolateBackward(const Attributes& attributes, std::span<const TensorType> in) {
  return InferResized("interpolate_backward", attributes, in);
}

// Calls f(small offset, large offset, weight) for every product of the map from small [N,C,H,W] to large [N,C,h,w].
template <class F>
void VisitInterpolateTaps(const Shape& small, const Shape& large, F&& f) {
  const std::vector<Tap> rows = AlignedTaps(small[2], large[2]);
  const std::vector<Tap> columns = AlignedTaps(small[3], large[3]);
  VisitElements(large, [&](const Index& index, int64_t offset) {
    const Tap& row = rows[static_cast<size_t>(index[2])];
    const Tap& column = columns[static_cast<size_t>(index[3])];
    const int64_t plane = (index[0] * small[1] + index[1]) * small[2] * small[3];
    const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(plane + i * small[3] + j); };
    const auto y = static_cast<size_t>(offset);
    f(at(row.low, column.low), y, (1 - row.weight) * (1 - column.weight));
    f(at(row.low, column.high), y, (1 - row.weight) * column.weight);
    f(at(row.high, column.low), y, row.weight * (1 - column.weight));
    f(at(row.high, column.high), y, row.weight * column.weight);
  });
}

void InterpolateReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitInterpolateTaps(in[0].type.shape, out[0].type.shape,
                       [&](size_t x, size_t y, double weight) { out[0].values[y] += weight * in[0].values[x]; });
}

void InterpolateReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitInterpolateTaps(out[0].type.shape, in[0].type.shape,
                       [&](size_t x, size_t y, double weight) { out[0].values[x] += weight * in[0].values[y]; });
}

void InterpolateGradientThrough(GradientContext& c, std::string_view op) {
  if (!c.wants(0)) return;
  const Shape& x = c.b().shape(c.x(0));
  c.SetDx(0, c.b().Add1(op, {c.dy(0)}, {{"size", Ints{x[2], x[3]}}}));
}
void InterpolateGradient(GradientContext& c) { InterpolateGradientThrough(c, "interpolate_backward"); }
void InterpolateGradientBackward(GradientContext& c) { InterpolateGradientThrough(c, "interpolate"); }

std::vector<OpCase> InterpolateCases() {
  const auto to = [](int64_t h, int64_t w) { return Attributes{{"size", Ints{h, w}}}; };
  return {
      {"larger", {Float32({2, 3, 3, 4})}, to(5, 9)},    {"smaller", {Float32({2, 17, 7, 6})}, to(4, 3)},
      {"one_pixel", {Float32({1, 2, 1, 1})}, to(3, 4)}, {"to_one_pixel", {Float32({1, 2, 3, 4})}, to(1, 1)},
      {"one_axis", {Float32({2, 2, 4, 5})}, to(4, 2)},  {"same", {Float32({1, 3, 3, 2})}, to(3, 2)},
  };
}

std::vector<AttributeSpec> InterpolateSpecs() { return {{"size", {}, "height and width of the output's planes"}}; }

}  // namespace

OpDef InterpolateOp() {
  return {.name = "interpolate",
          .doc = "x [N,C,H,W] -> y [N,C,h,w]: bilinear with aligned corners.",
          .attributes = InterpolateSpecs(),
          .infer = InferInterpolate,
          .reference = InterpolateReference,
          .gradient = InterpolateGradient,
          .precision = Precision::kKeep32,
          .cases = InterpolateCases};
}

OpDef InterpolateBackwardOp() {
  return {.name = "interpolate_backward",
          .doc = "dy [N,C,h,w] -> dx [N,C,H,W]: the transposed map of interpolate.",
          .attributes = InterpolateSpecs(),
          .infer = InferInterpolateBackward,
          .reference = InterpolateReferenceBackward,
          .gradient = InterpolateGradientBackward,
          .precision = Precision::kKeep32,
          .cases = InterpolateCases};
}

}  // namespace moka
