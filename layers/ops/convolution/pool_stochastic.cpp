// Stochastic pooling (Zeiler, Fergus, arXiv 1301.3557): of each window one element is taken, with a probability
// proportional to its value. u in [0, 1) chooses: the first element whose running sum reaches u times the window's sum
// (Caffe's GPU code). Values are meant not to be negative; should no running sum reach the mark, the last is taken.
#include <vector>

#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/geometry.h"
#include "layers/ops/gradients.h"
#include "layers/ops/visit.h"

namespace moka {
namespace {

std::vector<TensorType> InferPoolStochastic(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("pool_stochastic", in, 2, 2);
  CheckFloat("pool_stochastic", "x", in[0]);
  CheckFloat("pool_stochastic", "u", in[1]);
  const Shape y = PoolOutput("pool_stochastic", attributes, in[0].shape);
  CheckShape("pool_stochastic", "u", in[1].shape, y, "one number a window");
  return {PlainType(in[0].dtype, y), PlainType(ArgmaxType(PoolGeometry("pool_stochastic", attributes)), y)};
}

void PoolStochasticReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Geometry g = PoolGeometry("pool_stochastic", attributes);
  const Shape& x = in[0].type.shape;
  const Shape& y = out[0].type.shape;
  const auto size = static_cast<size_t>(y.Count());
  std::vector<double> totals(size, 0.0);
  VisitWindows(g, x, y, [&](int64_t i, int64_t o, int64_t) {
    totals[static_cast<size_t>(o)] += in[0].values[static_cast<size_t>(i)];
  });
  std::vector<double> sums(size, 0.0);
  std::vector<bool> chosen(size, false);
  VisitWindows(g, x, y, [&](int64_t i, int64_t o, int64_t position) {
    const auto at = static_cast<size_t>(o);
    if (chosen[at]) return;
    const double value = in[0].values[static_cast<size_t>(i)];
    sums[at] += value;
    chosen[at] = sums[at] >= in[1].values[at] * totals[at];
    out[0].values[at] = value;
    out[1].values[at] = static_cast<double>(position);
  });
}

void PoolStochasticGradient(GradientContext& c) {
  if (c.dy(0) == kNoId || !c.wants(0)) return;
  const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
  c.SetDx(0, c.b().Add1("pool_max_backward", {c.dy(0), c.y(1)}, With(c.attributes(), shape)));
}

std::vector<OpCase> PoolStochasticCases() {
  const auto make = [](const char* name, Attributes geometry, Ints x) {
    const Shape y = PoolOutput("pool_stochastic", geometry, ShapeOf(x));
    return OpCase{.name = name,
                  .inputs = {{DType::kFloat32, ShapeOf(x), {}}, {DType::kFloat32, y, {}}},
                  .attributes = std::move(geometry),
                  .low = 0.1,
                  .high = 1,
                  .ranges = {{1, 0.05, 0.95}}};
  };
  return {make("halving", PoolCase({2, 2}, {2, 2}, {0, 0}, {0, 0}), {2, 3, 6, 8}),
          make("ceil_overhang", PoolCase({3, 3}, {2, 2}, {0, 0}, {1, 1}), {1, 2, 6, 8}),
          make("one_dimension", PoolCase({3}, {2}, {0}, {1}), {2, 3, 8}),
          make("three_dimensions", PoolCase({2, 3, 2}, {1, 2, 2}, {0, 0, 0}, {1, 1, 0}), {1, 2, 4, 6, 6})};
}

}  // namespace

OpDef PoolStochasticOp() {
  return {.name = "pool_stochastic",
          .doc =
              "(x [N,C,in..], u [N,C,out..]) -> y, argmax like u: the element of each window that u chooses, with "
              "probabilities proportional to the values, and its position inside the window.",
          .attributes = PoolAttributes(),
          .infer = InferPoolStochastic,
          .reference = PoolStochasticReference,
          .gradient = PoolStochasticGradient,
          .takes_half = [](const Attributes&, int input) { return input == 0; },  // not the random numbers
          .cases = PoolStochasticCases};
}

}  // namespace moka
