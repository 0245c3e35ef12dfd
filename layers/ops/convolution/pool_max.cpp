// Max pooling and what follows from its argmax: y = max over the window, padding counting as minus infinity; argmax is
// the position inside the window, row-major, the first maximum winning (oneDNN's workspace).
#include <algorithm>
#include <vector>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/gradients.h"
#include "layers/ops/traits.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferPoolMax(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pool_max", in, 1, 1);
  CheckFloat("pool_max", "x", in[0]);
  const Shape y = PoolOutput("pool_max", attributes, in[0].shape);
  return {PlainType(in[0].dtype, y), PlainType(ArgmaxType(PoolGeometry("pool_max", attributes)), y)};
}

void PoolMaxReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<bool> seen(out[0].values.size(), false);
  VisitWindows(PoolGeometry("pool_max", attributes), in[0].type.shape, out[0].type.shape,
               [&](int64_t i, int64_t o, int64_t position) {
                 const double value = in[0].values[static_cast<size_t>(i)];
                 const auto at = static_cast<size_t>(o);
                 if (seen[at] && !(value > out[0].values[at])) return;
                 seen[at] = true;
                 out[0].values[at] = value;
                 out[1].values[at] = static_cast<double>(position);
               });
}

// Infers the op without the argmax: the form that inference needs, of integers too.
std::vector<TensorType> InferPoolMaxForward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pool_max_forward", in, 1, 1);
  return {PlainType(in[0].dtype, PoolOutput("pool_max_forward", attributes, in[0].shape))};
}

void PoolMaxReferenceForward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<RefTensor> both = {out[0], out[0]};
  PoolMaxReference(attributes, in, both);
  out[0].values = std::move(both[0].values);
}

void PoolMaxGradient(GradientContext& c) {
  if (c.dy(0) == kNoId || !c.wants(0)) return;
  const Attributes geometry = Selected(c.attributes(), {"kernel", "stride", "pad_begin", "pad_end"});
  const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
  c.SetDx(0, c.b().Add1("pool_max_backward", {c.dy(0), c.y(1)}, With(geometry, shape)));
}

// Checks that dy or argmax has the shape pooling gives for input_shape; returns input_shape.
Shape InputShape(std::string_view op, const Attributes& attributes, const TensorType& pooled, std::string_view name) {
  const Shape x = ShapeAttribute(op, attributes, "input_shape");
  CheckShape(op, name, pooled.shape, PoolOutput(op, attributes, x), "the pooled input_shape");
  return x;
}

void CheckArgmax(std::string_view op, const Attributes& attributes, const TensorType& argmax) {
  const TensorType expected{ArgmaxType(PoolGeometry(op, attributes)), argmax.shape, {}};
  CheckSameDType(op, "argmax", argmax, "the one of this kernel", expected);
}

std::vector<TensorType> InferPoolMaxBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pool_max_backward", in, 2, 2);
  CheckFloat("pool_max_backward", "dy", in[0]);
  CheckShape("pool_max_backward", "argmax", in[1].shape, in[0].shape, "dy's shape");
  const Shape x = InputShape("pool_max_backward", attributes, in[0], "dy");
  CheckArgmax("pool_max_backward", attributes, in[1]);
  return {PlainType(in[0].dtype, x)};
}

void PoolMaxReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitWindows(PoolGeometry("pool_max_backward", attributes), out[0].type.shape, in[0].type.shape,
               [&](int64_t i, int64_t o, int64_t position) {
                 if (in[1].values[static_cast<size_t>(o)] != static_cast<double>(position)) return;
                 out[0].values[static_cast<size_t>(i)] += in[0].values[static_cast<size_t>(o)];
               });
}

std::vector<TensorType> InferMask(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pool_max_mask", in, 1, 1);
  (void)InputShape("pool_max_mask", attributes, in[0], "argmax");
  CheckArgmax("pool_max_mask", attributes, in[0]);
  return {PlainType(DType::kFloat32, in[0].shape)};
}

void ReferenceMask(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape x = ShapeAttribute("pool_max_mask", attributes, "input_shape");
  const int64_t plane = x.Count(2, x.rank());
  VisitWindows(PoolGeometry("pool_max_mask", attributes), x, in[0].type.shape,
               [&](int64_t i, int64_t o, int64_t position) {
                 if (in[0].values[static_cast<size_t>(o)] != static_cast<double>(position)) return;
                 out[0].values[static_cast<size_t>(o)] = static_cast<double>(i % plane);
               });
}

struct PoolMaxExample {
  const char* name;
  Attributes geometry;
  Ints input;
};

std::vector<PoolMaxExample> Examples() {
  return {
      {"halving", PoolCase({2, 2}, {2, 2}, {0, 0}, {0, 0}), {2, 3, 6, 8}},
      {"overlapping_padded", PoolCase({3, 3}, {2, 2}, {1, 1}, {1, 1}), {2, 17, 7, 7}},
      {"ceil_overhang", PoolCase({3, 3}, {2, 2}, {0, 0}, {1, 1}), {1, 16, 6, 8}},
      {"asymmetric", PoolCase({3, 2}, {1, 2}, {2, 0}, {0, 1}), {2, 2, 5, 7}},
      {"one_dimension", PoolCase({3}, {2}, {1}, {1}), {2, 3, 9}},
      {"three_dimensions", PoolCase({2, 3, 2}, {1, 2, 2}, {0, 1, 0}, {1, 1, 0}), {1, 2, 4, 5, 6}},
      {"wide_window", PoolCase({16, 17}, {1, 1}, {0, 0}, {0, 0}), {1, 4, 17, 18}},
  };
}

// A position that lies inside the input in every window of pooling x to y.
int64_t CommonPosition(const Geometry& g, const Shape& x, const Shape& y) {
  int64_t position = 0;
  for (int i = 0; i < g.rank(); ++i) {
    const auto s = static_cast<size_t>(i);
    const int64_t along = g.pad_begin[s];
    const int64_t last = (y[i + 2] - 1) * g.stride[s] - g.pad_begin[s] + along;
    Require(along < g.kernel[s] && last < x[i + 2], "a case of pool_max_backward has a position common to all windows");
    position = position * g.kernel[s] + along;
  }
  return position;
}

// One case an example: x, or argmax (with dy before it) for the ops that follow from it.
std::vector<OpCase> MakePoolMaxCases(bool has_dy, bool has_argmax) {
  std::vector<OpCase> cases;
  for (const PoolMaxExample& e : Examples()) {
    const Shape x = ShapeOf(e.input);
    OpCase c{.name = e.name, .inputs = {}, .attributes = e.geometry, .ranges = {}};
    if (!has_argmax) {
      c.inputs = {{DType::kFloat32, x, {}}};
      c.min_gap = 1e-3;
      cases.push_back(std::move(c));
      continue;
    }
    const Geometry g = PoolGeometry("pool_max", e.geometry);
    const Shape y = PoolOutput("pool_max", e.geometry, x);
    const auto position = static_cast<double>(CommonPosition(g, x, y));
    if (has_dy) c.inputs.push_back({DType::kFloat32, y, {}});
    c.ranges.push_back({static_cast<int>(c.inputs.size()), position, position});
    c.inputs.push_back({ArgmaxType(g), y, {}});
    c.attributes.Set("input_shape", e.input);
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> PoolMaxCases() { return MakePoolMaxCases(false, false); }
std::vector<OpCase> PoolMaxForwardCases() {
  std::vector<OpCase> cases = MakePoolMaxCases(false, false);
  OpCase integers{.name = "integers",
                  .inputs = {{DType::kUInt8, Shape{2, 17, 7, 7}, {}}},
                  .attributes = PoolCase({3, 3}, {2, 2}, {1, 1}, {1, 1}),
                  .ranges = {{0, 0, 255}}};
  cases.push_back(std::move(integers));
  return cases;
}
std::vector<OpCase> PoolMaxBackwardCases() { return MakePoolMaxCases(true, true); }
std::vector<OpCase> MaskCases() { return MakePoolMaxCases(false, true); }

}  // namespace

OpDef PoolMaxOp() {
  return {.name = "pool_max",
          .doc = "x [N,C,in..] -> y [N,C,out..], argmax like y: the maximum of each window and its position inside it.",
          .attributes = PoolAttributes(),
          .infer = InferPoolMax,
          .reference = PoolMaxReference,
          .gradient = PoolMaxGradient,
          .cases = PoolMaxCases};
}

OpDef PoolMaxBackwardOp() {
  return {.name = "pool_max_backward",
          .doc = "(dy, argmax) -> dx: each dy goes to the element its window took.",
          .attributes = JoinSpecs({PoolAttributes(), {ShapeSpec("input_shape", "the full shape of dx")}}),
          .infer = InferPoolMaxBackward,
          .reference = PoolMaxReferenceBackward,
          .cases = PoolMaxBackwardCases};
}

OpDef PoolMaxForwardOp() {
  return {.name = "pool_max_forward",
          .doc = "x [N,C,in..] -> y [N,C,out..]: the maximum of each window, of real numbers or 8-bit integers.",
          .attributes = PoolAttributes(),
          .infer = InferPoolMaxForward,
          .reference = PoolMaxReferenceForward,
          .by_image = EachImageAlone,
          .cases = PoolMaxForwardCases};
}

OpDef PoolMaxMaskOp() {
  return {.name = "pool_max_mask",
          .doc = "argmax -> mask like it, float32: Caffe's second top, the index of the maximum in the input plane.",
          .attributes = JoinSpecs({PoolAttributes(), {ShapeSpec("input_shape", "the full shape of the pooled x")}}),
          .infer = InferMask,
          .reference = ReferenceMask,
          .cases = MaskCases};
}

}  // namespace moka
