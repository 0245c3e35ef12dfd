// Losses of differences: AbsLoss (Garg's unsupervised depth), DiceCoefLoss (HolmesShuan's, of EAST's nets).
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// Where the difference is 0 the gradient is that of a negative one.
void BuildAbs(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const ValueId other = Like0(l, 1);
  const int64_t batch = l.shape(0)[0];
  const ValueId sum = SumOf(l, "abs(x0-x1)", {Constant(l, l.bottom(0)), Constant(l, other)});
  const ValueId da = Computed(b, Select(l.Bottom(0) > Term::Of(other), 1, -1) / batch);
  const ValueId loss = Computed(b, Term::Of(sum) / batch);
  l.SetTop(0, WithGradients(l, loss, {{l.bottom(0), da}, {other, b.Pointwise("-x0", {da})}}));
  l.SetLoss(0, 1);
}

// The value has the items' absolute coefficients, the gradient is that of the coefficients.
void BuildDiceCoef(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const ValueId other = Like0(l, 1);
  const int64_t batch = l.shape(0)[0];
  const Shape rows{batch, l.shape(0).Count() / batch};
  const std::vector<ValueId> items{b.Reshape(l.bottom(0), rows), b.Reshape(other, rows)};
  const auto sum = [&](const char* expr) {
    return b.Add1("reduce_sum", items, {{"expr", std::string(expr)}, {"axes", Ints{1}}});
  };
  const ValueId coefficients = b.Pointwise("(2*x0+1)/(x1+1)", {sum("x0*x1"), sum("x0*x0+x1*x1")});
  const auto loss = [&](const char* term) { return Computed(b, 1 - Term::Of(SumOf(l, term, {coefficients})) / batch); };
  const ValueId carrier = loss("x0");
  l.SetTop(0, b.Pointwise("x0+(x1-x2)", {Constant(l, loss("abs(x0)")), carrier, Constant(l, carrier)}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef AbsLossLayer() {
  return {.type = "AbsLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildAbs,
          .traits = {.is_loss = true, .is_regression = true},
          .needs = NeedEqualCounts};
}

LayerDef DiceCoefLossLayer() {
  return {.type = "DiceCoefLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildDiceCoef,
          .traits = {.is_loss = true},
          .needs = NeedEqualCounts};
}

}  // namespace moka
