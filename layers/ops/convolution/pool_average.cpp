// Average pooling with a divisor that may count padding: y = sum over the window / positions inside the counted range
// [-count_begin, size + count_end). Caffe counts its symmetric padding, but not what a rounded-up size hangs over.
#include <algorithm>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/gradients.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

constexpr const char* kPoolAverageBackward = "pool_average_backward";

std::vector<TensorType> InferPoolAverage(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pool_average", in, 1, 1);
  CheckFloat("pool_average", "x", in[0]);
  const Shape y = PoolOutput("pool_average", attributes, in[0].shape);
  CheckCounts("pool_average", attributes, PoolGeometry("pool_average", attributes));
  return {PlainType(in[0].dtype, y)};
}

// 1 / divisor of each window of y, over its spatial dimensions.
std::vector<double> Factors(const Attributes& attributes, const Shape& x, const Shape& y) {
  const Geometry g = PoolGeometry("pool_average", attributes);
  std::vector<double> factors(static_cast<size_t>(y.Count()));
  VisitElements(y, [&](const Index& index, int64_t offset) {
    double divisor = 1;
    for (int i = 0; i < g.rank(); ++i) {
      const int64_t o = index[static_cast<size_t>(i) + 2];
      divisor *= static_cast<double>(CountedPositions(g, attributes, i, x[i + 2], o));
    }
    factors[static_cast<size_t>(offset)] = 1 / divisor;
  });
  return factors;
}

void PoolAverageReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const std::vector<double> factors = Factors(attributes, in[0].type.shape, out[0].type.shape);
  std::ranges::fill(out[0].values, 0.0);
  VisitWindows(PoolGeometry("pool_average", attributes), in[0].type.shape, out[0].type.shape,
               [&](int64_t i, int64_t o, int64_t) {
                 const auto at = static_cast<size_t>(o);
                 out[0].values[at] += in[0].values[static_cast<size_t>(i)] * factors[at];
               });
}

void PoolAverageGradient(GradientContext& c) {
  const Attributes geometry =
      Selected(c.attributes(), {"kernel", "stride", "pad_begin", "pad_end", "count_begin", "count_end"});
  const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
  if (c.wants(0)) c.SetDx(0, c.b().Add1(kPoolAverageBackward, {c.dy(0)}, With(geometry, shape)));
}

std::vector<TensorType> InferPoolAverageBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kPoolAverageBackward, in, 1, 1);
  CheckFloat(kPoolAverageBackward, "dy", in[0]);
  const Shape x = ShapeAttribute(kPoolAverageBackward, attributes, "input_shape");
  CheckShape(kPoolAverageBackward, "dy", in[0].shape, PoolOutput(kPoolAverageBackward, attributes, x),
             "the pooled input_shape");
  CheckCounts(kPoolAverageBackward, attributes, PoolGeometry(kPoolAverageBackward, attributes));
  return {PlainType(in[0].dtype, x)};
}

void PoolAverageReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in,
                                  std::span<RefTensor> out) {
  const std::vector<double> factors = Factors(attributes, out[0].type.shape, in[0].type.shape);
  std::ranges::fill(out[0].values, 0.0);
  VisitWindows(PoolGeometry(kPoolAverageBackward, attributes), out[0].type.shape, in[0].type.shape,
               [&](int64_t i, int64_t o, int64_t) {
                 const auto at = static_cast<size_t>(o);
                 out[0].values[static_cast<size_t>(i)] += in[0].values[at] * factors[at];
               });
}

// Linear: the gradient of the gradient is the forward.
void PoolAverageGradientBackward(GradientContext& c) {
  const Attributes geometry =
      Selected(c.attributes(), {"kernel", "stride", "pad_begin", "pad_end", "count_begin", "count_end"});
  if (c.wants(0)) c.SetDx(0, c.b().Add1("pool_average", {c.dy(0)}, geometry));
}

std::vector<OpCase> MakePoolAverageCases(bool backward) {
  struct Example {
    const char* name;
    Attributes geometry;
    Ints count_begin;
    Ints count_end;
    Ints input;
  };
  const std::vector<Example> examples = {
      {"caffe_padded", PoolCase({3, 3}, {2, 2}, {1, 1}, {2, 2}), {1, 1}, {1, 1}, {2, 17, 8, 8}},
      {"exclude_padding", PoolCase({3, 3}, {2, 2}, {1, 1}, {1, 1}), {0, 0}, {0, 0}, {2, 16, 7, 7}},
      {"include_padding", PoolCase({3, 3}, {1, 1}, {1, 1}, {1, 1}), {1, 1}, {1, 1}, {2, 3, 5, 5}},
      {"global", PoolCase({7, 7}, {1, 1}, {0, 0}, {0, 0}), {0, 0}, {0, 0}, {2, 20, 7, 7}},
      {"ceil_overhang", PoolCase({3, 3}, {2, 2}, {0, 0}, {1, 1}), {0, 0}, {0, 0}, {1, 3, 6, 8}},
      {"asymmetric", PoolCase({3, 2}, {1, 2}, {2, 0}, {0, 1}), {1, 0}, {0, 1}, {2, 2, 5, 7}},
      {"one_dimension", PoolCase({3}, {2}, {1}, {1}), {1}, {0}, {2, 3, 9}},
      {"three_dimensions", PoolCase({2, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 0}), {0, 1, 0}, {0, 1, 0}, {1, 2, 4, 5, 6}},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    OpCase c{.name = e.name, .inputs = {}, .attributes = e.geometry, .ranges = {}};
    const Shape x = ShapeOf(e.input);
    c.inputs = {{DType::kFloat32, backward ? PoolOutput("pool_average", e.geometry, x) : x, {}}};
    c.attributes.Set("count_begin", e.count_begin);
    c.attributes.Set("count_end", e.count_end);
    if (backward) c.attributes.Set("input_shape", e.input);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> PoolAverageCases() { return MakePoolAverageCases(false); }
std::vector<OpCase> PoolAverageBackwardCases() { return MakePoolAverageCases(true); }

}  // namespace

OpDef PoolAverageOp() {
  return {
      .name = "pool_average",
      .doc = "x [N,C,in..] -> y [N,C,out..]: the mean of each window, padding counting as zeros where it is counted.",
      .attributes = JoinSpecs({PoolAttributes(), CountAttributes()}),
      .infer = InferPoolAverage,
      .reference = PoolAverageReference,
      .gradient = PoolAverageGradient,
      .by_image = EachImageAlone,
      .cases = PoolAverageCases};
}

OpDef PoolAverageBackwardOp() {
  return {.name = kPoolAverageBackward,
          .doc = "dy -> dx: each dy, divided as in the forward, goes to all elements of its window.",
          .attributes =
              JoinSpecs({PoolAttributes(), CountAttributes(), {ShapeSpec("input_shape", "the full shape of dx")}}),
          .infer = InferPoolAverageBackward,
          .reference = PoolAverageReferenceBackward,
          .gradient = PoolAverageGradientBackward,
          .cases = PoolAverageBackwardCases};
}

}  // namespace moka
