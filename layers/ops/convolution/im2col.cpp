// The windows of a convolution laid out as channels, and their sum, which is its gradient and it is that one's.
#include <algorithm>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/gradients.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

Geometry WindowsOf(std::string_view op, const Attributes& attributes) {
  Ints kernel{1, 1};
  const Ints& sizes = attributes.Get<Ints>("kernel");
  kernel.insert(kernel.end(), sizes.begin(), sizes.end());
  if (kernel.size() > Shape::kMaxRank || std::ranges::any_of(sizes, [](int64_t k) { return k < 1; })) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": kernel must have 1 to 3 values, each at least 1"));
  }
  return ConvolutionGeometry(op, attributes, ShapeOf(kernel));
}

// The places of the windows on x [N,C,in..]: [N,C,out..].
Shape Places(std::string_view op, const Geometry& g, const Shape& x) {
  if (x.rank() != g.rank() + 2) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": x must be [N,C,spatial..] with ", g.rank(), " spatial dimensions, found ", x.ToString()));
  }
  Shape y = x;
  for (int i = 0; i < g.rank(); ++i) y = y.With(i + 2, WindowPositions(op, g, i, x[i + 2]));
  return y;
}

Shape Im2colColumns(const Geometry& g, const Shape& places) {
  return places.With(1, (Size(places[1]) * g.WindowSize()).value());
}

// Calls f(x offset, column offset) for each element of each window.
template <class F>
void VisitColumns(const Geometry& g, const Shape& x, const Shape& places, F&& f) {
  const int64_t plane = places.Count(2, places.rank());
  const int64_t size = g.WindowSize();
  VisitWindows(g, x, places, [&](int64_t i, int64_t o, int64_t position) {
    f(static_cast<size_t>(i), static_cast<size_t>((o / plane * size + position) * plane + o % plane));
  });
}

std::vector<TensorType> InferIm2col(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("im2col", in, 1, 1);
  CheckFloat("im2col", "x", in[0]);
  const Geometry g = WindowsOf("im2col", attributes);
  return {PlainType(in[0].dtype, Im2colColumns(g, Places("im2col", g, in[0].shape)))};
}

void Im2colReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Geometry g = WindowsOf("im2col", attributes);
  std::ranges::fill(out[0].values, 0.0);
  VisitColumns(g, in[0].type.shape, Places("im2col", g, in[0].type.shape),
               [&](size_t i, size_t column) { out[0].values[column] = in[0].values[i]; });
}

std::vector<TensorType> InferSum(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("col2im", in, 1, 1);
  CheckFloat("col2im", "columns", in[0]);
  const Geometry g = WindowsOf("col2im", attributes);
  const Shape x = ShapeAttribute("col2im", attributes, "input_shape");
  CheckShape("col2im", "columns", in[0].shape, Im2colColumns(g, Places("col2im", g, x)), "the windows of input_shape");
  return {PlainType(in[0].dtype, x)};
}

void ReferenceSum(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Geometry g = WindowsOf("col2im", attributes);
  std::ranges::fill(out[0].values, 0.0);
  VisitColumns(g, out[0].type.shape, Places("col2im", g, out[0].type.shape),
               [&](size_t i, size_t column) { out[0].values[i] += in[0].values[column]; });
}

Attributes GeometryOf(const GradientContext& c) {
  return Selected(c.attributes(), {"kernel", "stride", "pad_begin", "pad_end", "dilation"});
}

void Im2colGradient(GradientContext& c) {
  if (c.dy(0) == kNoId || !c.wants(0)) return;
  const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
  c.SetDx(0, c.b().Add1("col2im", {c.dy(0)}, With(GeometryOf(c), shape)));
}

void GradientOfSum(GradientContext& c) {
  if (c.dy(0) == kNoId || !c.wants(0)) return;
  c.SetDx(0, c.b().Add1("im2col", {c.dy(0)}, GeometryOf(c)));
}

std::vector<AttributeSpec> WindowAttributes() {
  return JoinSpecs(
      {PoolAttributes(), {{"dilation", {}, "distance between a window's elements, one value a spatial dimension"}}});
}

// The cases of im2col, or of its sum.
std::vector<OpCase> MakeIm2colCases(bool is_sum) {
  struct Example {
    const char* name;
    Ints input, kernel, stride, pad_begin, pad_end, dilation;
  };
  const std::vector<Example> examples = {
      {"overlapping", {2, 3, 5, 6}, {3, 2}, {1, 2}, {1, 0}, {1, 1}, {1, 1}},
      {"one_by_one", {2, 2, 3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
      {"dilated", {1, 2, 7, 5}, {2, 3}, {2, 1}, {0, 2}, {0, 2}, {3, 2}},
      {"one_axis", {2, 17, 9}, {4}, {3}, {2}, {1}, {1}},
      {"three_axes", {1, 2, 3, 4, 5}, {2, 2, 3}, {1, 2, 2}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}},
      {"gaps", {1, 1, 8, 8}, {2, 2}, {3, 3}, {0, 0}, {0, 0}, {1, 1}},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    OpCase c{.name = e.name,
             .inputs = {{DType::kFloat32, ShapeOf(e.input), {}}},
             .attributes = With(PoolCase(e.kernel, e.stride, e.pad_begin, e.pad_end), {{"dilation", e.dilation}})};
    if (is_sum) {
      const Geometry g = WindowsOf("col2im", c.attributes);
      c.inputs[0].shape = Im2colColumns(g, Places("col2im", g, ShapeOf(e.input)));
      c.attributes.Set("input_shape", e.input);
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<OpCase> Im2colCases() { return MakeIm2colCases(false); }
std::vector<OpCase> CasesOfSum() { return MakeIm2colCases(true); }

}  // namespace

OpDef Im2colOp() {
  return {.name = "im2col",
          .doc = "x [N,C,in..] -> y [N,C*K,out..]: the K elements of each window as channels, zero in the padding.",
          .attributes = WindowAttributes(),
          .infer = InferIm2col,
          .reference = Im2colReference,
          .gradient = Im2colGradient,
          .precision = Precision::kKeep32,
          .cases = Im2colCases};
}

OpDef Col2imOp() {
  return {.name = "col2im",
          .doc = "columns [N,C*K,out..] -> x [N,C,in..]: each element the sum of what im2col makes of it.",
          .attributes = JoinSpecs({WindowAttributes(), {ShapeSpec("input_shape", "the full shape of x")}}),
          .infer = InferSum,
          .reference = ReferenceSum,
          .gradient = GradientOfSum,
          .precision = Precision::kKeep32,
          .cases = CasesOfSum};
}

}  // namespace moka
