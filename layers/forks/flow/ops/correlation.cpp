// Patches of one map compared with displaced patches of another (FlowNet, Dosovitskiy et al., arXiv 1504.06852):
// y[n,d,i,j] is the mean over the patch and the channels of a * b, or of |a - b|, where a's patch has its upper left
// pixel at begin + stride * (i, j) and b's lies displacement d further. Pixels outside are 0. Displacements are the
// pairs of `down` and `across`, row by row.
#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"

namespace moka {
namespace {

Shape TopShape(const Attributes& attributes, const Shape& x) {
  const Shape size = ShapeAttribute("correlation", attributes, "size");
  const Size moves = Size(static_cast<int64_t>(attributes.Get<Ints>("down").size())) *
                     static_cast<int64_t>(attributes.Get<Ints>("across").size());
  return {x[0], moves.value(), size[0], size[1]};
}

void Check(std::string_view op, const Attributes& attributes, std::span<const TensorType> in) {
  CheckFloat(op, "a", in[0]);
  const Shape& x = in[0].shape;
  const Shape size = ShapeAttribute(op, attributes, "size");
  if (x.rank() != 4 || x.Count() < 1 || size.rank() != 2 || size[0] < 1 || size[1] < 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": a must be [N,C,H,W] and size two numbers of at least 1, found ",
                                           x.ToString(), " and ", size.ToString()));
  }
  CheckShape(op, "b", in[1].shape, x, "as a");
  if (attributes.Get<Ints>("begin").size() != 2 || attributes.Int("kernel") < 1 || attributes.Int("stride") < 1 ||
      attributes.Get<Ints>("down").empty() || attributes.Get<Ints>("across").empty()) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": begin has two numbers, kernel and stride are at least 1, down and across have one"));
  }
}

// Calls f(output's place, a's place, b's place) for every pair of pixels of every patch and channel; a place that lies
// outside is -1. Nothing is called where both do.
template <class F>
void VisitPairs(const Attributes& attributes, const Shape& x, F&& f) {
  const Shape y = TopShape(attributes, x);
  const Ints& begin = attributes.Get<Ints>("begin");
  const Ints& down = attributes.Get<Ints>("down");
  const Ints& across = attributes.Get<Ints>("across");
  const int64_t kernel = attributes.Int("kernel");
  const int64_t stride = attributes.Int("stride");
  const auto place = [&](int64_t row, int64_t column) {
    return row < 0 || row >= x[2] || column < 0 || column >= x[3] ? -1 : row * x[3] + column;
  };
  int64_t to = 0;
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t d = 0; d < y[1]; ++d) {
      const int64_t v = down[static_cast<size_t>(d) / across.size()];
      const int64_t u = across[static_cast<size_t>(d) % across.size()];
      for (int64_t pixel = 0; pixel < y[2] * y[3]; ++pixel, ++to) {
        for (int64_t k = 0; k < kernel * kernel; ++k) {
          const int64_t row = begin[0] + stride * (pixel / y[3]) + k / kernel;
          const int64_t column = begin[1] + stride * (pixel % y[3]) + k % kernel;
          const int64_t a = place(row, column);
          const int64_t b = place(row + v, column + u);
          if (a < 0 && b < 0) continue;
          for (int64_t plane = n * x[1]; plane < (n + 1) * x[1]; ++plane) {
            const int64_t first = plane * x[2] * x[3];
            f(static_cast<size_t>(to), a < 0 ? -1 : first + a, b < 0 ? -1 : first + b);
          }
        }
      }
    }
  }
}

double Elements(const Attributes& attributes, const Shape& x) {
  return static_cast<double>(attributes.Int("kernel") * attributes.Int("kernel") * x[1]);
}

double At(const RefTensor& x, int64_t i) { return i < 0 ? 0 : x.values[static_cast<size_t>(i)]; }

std::vector<TensorType> InferCorrelation(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("correlation", in, 2, 2);
  Check("correlation", attributes, in);
  return {PlainType(in[0].dtype, TopShape(attributes, in[0].shape))};
}

void CorrelationReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const bool subtracts = attributes.Bool("subtract");
  std::vector<double>& y = out[0].values;
  std::ranges::fill(y, 0.0);
  VisitPairs(attributes, in[0].type.shape, [&](size_t to, int64_t i, int64_t j) {
    const double a = At(in[0], i);
    const double b = At(in[1], j);
    y[to] += subtracts ? std::abs(a - b) : a * b;
  });
  const double elements = Elements(attributes, in[0].type.shape);
  for (double& value : y) value /= elements;
}

void CorrelationGradient(GradientContext& c) {
  if (!c.wants(0) && !c.wants(1)) return;
  const std::vector<ValueId> dx = c.b().Add("correlation_backward", {c.x(0), c.x(1), c.dy(0)}, c.attributes());
  for (int i = 0; i < 2; ++i) {
    if (c.wants(i)) c.SetDx(i, dx[static_cast<size_t>(i)]);
  }
}

std::vector<TensorType> InferCorrelationBackward(const Attributes& attributes, std::span<const TensorType> in) {
  constexpr std::string_view kOp = "correlation_backward";
  CheckInputCount(kOp, in, 3, 3);
  Check(kOp, attributes, in);
  CheckShape(kOp, "dy", in[2].shape, TopShape(attributes, in[0].shape), "as the correlation");
  return {PlainType(in[0].dtype, in[0].shape), PlainType(in[1].dtype, in[1].shape)};
}

void CorrelationReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in,
                                  std::span<RefTensor> out) {
  const bool subtracts = attributes.Bool("subtract");
  const double elements = Elements(attributes, in[0].type.shape);
  for (RefTensor& dx : out) std::ranges::fill(dx.values, 0.0);
  VisitPairs(attributes, in[0].type.shape, [&](size_t to, int64_t i, int64_t j) {
    const double a = At(in[0], i);
    const double b = At(in[1], j);
    const double dy = in[2].values[to] / elements;
    const double sign = a > b ? 1 : a < b ? -1 : 0;
    if (i >= 0) out[0].values[static_cast<size_t>(i)] += dy * (subtracts ? sign : b);
    if (j >= 0) out[1].values[static_cast<size_t>(j)] += dy * (subtracts ? -sign : a);
  });
}

std::vector<OpCase> MakeCorrelationCases(bool backward) {
  const auto make = [&](const char* name, const Shape& x, int64_t kernel, int64_t stride, bool subtract, Ints down,
                        Ints across, Ints begin, Ints size) {
    OpCase c{.name = name,
             .inputs = {PlainType(DType::kFloat32, x), PlainType(DType::kFloat32, x)},
             .attributes = {{"kernel", kernel},
                            {"stride", stride},
                            {"subtract", subtract},
                            {"down", std::move(down)},
                            {"across", std::move(across)},
                            {"begin", std::move(begin)},
                            {"size", std::move(size)}}};
    if (backward) c.inputs.push_back(PlainType(DType::kFloat32, TopShape(c.attributes, x)));
    // A kink where the values agree, also with the zeros outside.
    if (subtract) c.ranges = {{0, 0.6, 1}, {1, 0.1, 0.5}};
    return c;
  };
  return {make("pixels", {2, 3, 4, 5}, 1, 1, false, {-1, 0, 1}, {-2, 0, 2}, {0, 0}, {4, 5}),
          make("patches", {1, 2, 5, 6}, 3, 2, false, {-1, 0}, {0, 1}, {-1, -1}, {2, 3}),
          make("one_row_apart", {1, 2, 3, 6}, 1, 1, true, {0}, {-2, -1}, {0, 0}, {3, 6})};
}

std::vector<AttributeSpec> CorrelationSpecs() {
  return {{"kernel", int64_t{1}, "pixels of a patch in each direction"},
          {"stride", int64_t{1}, "pixels between patches of a"},
          {"subtract", false, "absolute differences instead of products"},
          {"down", {}, "rows by which b's patches are displaced"},
          {"across", {}, "columns by which b's patches are displaced"},
          {"begin", {}, "row and column of a's first patch; may lie outside"},
          {"size", {}, "height and width of y"}};
}

}  // namespace

OpDef CorrelationOp() {
  return {.name = "correlation",
          .doc = "(a, b [N,C,H,W]) -> y [N,D,h,w]: patches of a compared with patches of b displaced in D ways.",
          .attributes = CorrelationSpecs(),
          .infer = InferCorrelation,
          .reference = CorrelationReference,
          .gradient = CorrelationGradient,
          .precision = Precision::kKeep32,
          .cases = [] { return MakeCorrelationCases(false); }};
}

OpDef CorrelationBackwardOp() {
  return {.name = "correlation_backward",
          .doc = "(a, b, dy) -> da like a, db like b.",
          .attributes = CorrelationSpecs(),
          .infer = InferCorrelationBackward,
          .reference = CorrelationReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = [] { return MakeCorrelationCases(true); }};
}

}  // namespace moka
