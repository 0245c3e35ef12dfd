// Unpooling without a mask (DeconvNet's AVE and TILE): y is the sum of what each window spreads over its pixels, its
// value (TILE) or its value divided by its pixels (AVE). A kernel of 1 puts each value at its window's corner (MAX
// without a mask). Linear in x; the gradient is the transposed map.
#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/convolution/windows.h"
#include "layers/ops/gradients.h"

namespace moka {
namespace {

void CheckUnpoolPair(std::string_view op, const Attributes& attributes, std::string_view name) {
  const Ints& values = attributes.Get<Ints>(name);
  if (values.size() == 2 && std::ranges::min(values) >= 1 && std::ranges::max(values) <= INT32_MAX) return;
  throw Error(ErrorKind::kConfig,
              StrCat(op, ": ", name, " must be two numbers from 1 to 2^31-1, found ", ToText(AttributeValue(values))));
}

// The output [N,C,size..]; `small` says whether the input's planes are the small ones.
std::vector<TensorType> InferPlanes(std::string_view op, const Attributes& attributes, std::span<const TensorType> in,
                                    bool is_backward) {
  CheckInputCount(op, in, 1, 1);
  CheckFloat(op, "x", in[0]);
  for (const char* name : {"kernel", "stride", "size"}) CheckUnpoolPair(op, attributes, name);
  const Shape& x = in[0].shape;
  if (x.rank() != 4) throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [N,C,H,W], found ", x.ToString()));
  const Ints& size = attributes.Get<Ints>("size");
  const Shape y = x.With(2, size[0]).With(3, size[1]);
  const Shape& small = is_backward ? y : x;
  const Shape& large = is_backward ? x : y;
  for (int i = 2; i < 4; ++i) {
    const int64_t last = (Size(small[i] - 1) * attributes.Get<Ints>("stride")[static_cast<size_t>(i) - 2]).value();
    if (last < large[i]) continue;
    throw Error(ErrorKind::kConfig, StrCat(op, ": the last window of ", small.ToString(), " begins at ", last,
                                           ", outside ", large.ToString()));
  }
  return {PlainType(in[0].dtype, y)};
}

std::vector<TensorType> InferUnpool(const Attributes& attributes, std::span<const TensorType> in) {
  return InferPlanes("unpool", attributes, in, false);
}
std::vector<TensorType> InferUnpoolBackward(const Attributes& attributes, std::span<const TensorType> in) {
  return InferPlanes("unpool_backward", attributes, in, true);
}

// Calls f(small offset, large offset, weight) in every plane.
template <class F>
void VisitAll(const Attributes& attributes, const Shape& small, const Shape& large, F&& f) {
  const UnpoolWindows windows(attributes, small, large);
  for (int64_t plane = 0; plane < small[0] * small[1]; ++plane) {
    windows.Visit([&](int64_t i, int64_t j, double weight) {
      f(static_cast<size_t>(plane * windows.SmallPlane() + i), static_cast<size_t>(plane * windows.LargePlane() + j),
        weight);
    });
  }
}

void UnpoolReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitAll(attributes, in[0].type.shape, out[0].type.shape,
           [&](size_t x, size_t y, double weight) { out[0].values[y] += weight * in[0].values[x]; });
}

void UnpoolReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitAll(attributes, out[0].type.shape, in[0].type.shape,
           [&](size_t x, size_t y, double weight) { out[0].values[x] += weight * in[0].values[y]; });
}

void UnpoolGradientThrough(GradientContext& c, std::string_view op) {
  if (!c.wants(0)) return;
  const Shape& x = c.b().shape(c.x(0));
  Attributes attributes = c.attributes();
  attributes.Set("size", Ints{x[2], x[3]});
  c.SetDx(0, c.b().Add1(op, {c.dy(0)}, attributes));
}
void UnpoolGradient(GradientContext& c) { UnpoolGradientThrough(c, "unpool_backward"); }
void UnpoolGradientBackward(GradientContext& c) { UnpoolGradientThrough(c, "unpool"); }

struct UnpoolExample {
  const char* name;
  Shape small;
  Shape large;
  Ints kernel;
  Ints stride;
  bool mean;
};

std::vector<OpCase> MakeUnpoolCases(bool backward) {
  const std::vector<UnpoolExample> examples = {
      {"tiles", {2, 3, 2, 3}, {2, 3, 4, 6}, {2, 2}, {2, 2}, false},
      {"shares", {2, 17, 2, 3}, {2, 17, 5, 7}, {2, 2}, {2, 2}, true},
      {"overlapping", {1, 2, 3, 3}, {1, 2, 7, 7}, {3, 3}, {2, 2}, true},
      {"cut", {1, 2, 2, 2}, {1, 2, 3, 4}, {3, 2}, {2, 3}, true},
      {"corners", {1, 2, 2, 2}, {1, 2, 5, 5}, {1, 1}, {2, 2}, false},
  };
  std::vector<OpCase> cases;
  for (const UnpoolExample& e : examples) {
    const Shape& y = backward ? e.small : e.large;
    cases.push_back(
        {.name = e.name,
         .inputs = {{DType::kFloat32, backward ? e.large : e.small, {}}},
         .attributes = {{"kernel", e.kernel}, {"stride", e.stride}, {"size", Ints{y[2], y[3]}}, {"mean", e.mean}}});
  }
  return cases;
}
std::vector<OpCase> UnpoolCases() { return MakeUnpoolCases(false); }
std::vector<OpCase> UnpoolBackwardCases() { return MakeUnpoolCases(true); }

std::vector<AttributeSpec> UnpoolSpecs() {
  return {{"kernel", {}, "height and width of a window"},
          {"stride", {}, "pixels from one window to the next, down and along"},
          {"size", {}, "height and width of the output's planes"},
          {"mean", false, "whether a window's value is divided by its pixels"}};
}

}  // namespace

OpDef UnpoolOp() {
  return {.name = "unpool",
          .doc = "x [N,C,H,W] -> y [N,C,h,w]: each value spread over its window, overlapping windows added.",
          .attributes = UnpoolSpecs(),
          .infer = InferUnpool,
          .reference = UnpoolReference,
          .gradient = UnpoolGradient,
          .precision = Precision::kKeep32,
          .cases = UnpoolCases};
}

OpDef UnpoolBackwardOp() {
  return {.name = "unpool_backward",
          .doc = "dy [N,C,h,w] -> dx [N,C,H,W]: the sum or mean of each window.",
          .attributes = UnpoolSpecs(),
          .infer = InferUnpoolBackward,
          .reference = UnpoolReferenceBackward,
          .gradient = UnpoolGradientBackward,
          .precision = Precision::kKeep32,
          .cases = UnpoolBackwardCases};
}

}  // namespace moka
