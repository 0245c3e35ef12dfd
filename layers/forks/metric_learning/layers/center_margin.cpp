// The fraction p has a closed form: for distances directly, and for angles as a root of the quadratic that brings the
// cosine to the margin.
#include "layers/forks/metric_learning/layers/center_margin.h"

#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

ValueId RowSum(const LayerBuilder& l, const Term& term) { return Summed(l.b(), term, {1}); }

}  // namespace

ValueId DrawnPart(const LayerBuilder& l, const MarginRows& rows, bool is_cosine, double margin, double guard) {
  const Term x = Term::Of(Constant(l, rows.x));
  const Term center = Term::Of(Constant(l, rows.center));
  const Term m = Decimal(margin);
  if (!is_cosine) {
    const Term square = Term::Of(RowSum(l, Square(x - center)));
    return Computed(l.b(), Select(square > 0, Max((Sqrt(square) - m) / Sqrt(square), 0), 0));
  }
  // r, s, t = |x|^2, x.c, |c|^2; c2 p^2 + c1 p + c0 = 0 where the cosine of x + p (c - x) and c is the margin.
  const ValueId sums[] = {RowSum(l, x * x), RowSum(l, x * center), RowSum(l, center * center)};
  const Term r = Term::Of(sums[0]);
  const Term s = Term::Of(sums[1]);
  const Term t = Term::Of(sums[2]);
  const Term rest = Decimal(1 - margin * margin);
  const Term c0 = s * s - Decimal(margin * margin) * r * t;
  const Term c1 = 2 * (rest * s * t - c0);
  const Term c2 = rest * t * (t - 2 * s) + c0;
  const Term square = c1 * c1 - 4 * c2 * c0;
  const Term root = Sqrt(guard > 0 ? square + Decimal(guard) : Max(square, 0));
  const Term first = (-c1 + root) / (2 * c2);
  const Term second = (-c1 - root) / (2 * c2);
  const Term first_fits = (first > (guard > 0 ? 0 : -0.000001)) * (first < 1.000001);
  const Term differ = first * second < 0;
  const Term reach_past = first + second > 1;
  const Term part = Select(Max(differ, reach_past), Select(first_fits, first, second), Max(first, second));
  return Computed(l.b(), Select(s / Sqrt(r) / Sqrt(t) < m, part, 0), {sums[0], sums[1], sums[2]});
}

ValueId PeersOf(const LayerBuilder& l, ValueId label, int64_t count) {
  return l.b().Add1("reduce_sum", {l.b().Reshape(label, {count, 1}), l.b().Reshape(label, {1, count})},
                    {{"expr", std::string("eq(x0,x1)")}, {"axes", Ints{1}}});
}

double LossWeightOf(const LayerBuilder& l) {
  const double weight = l.param().loss_weight_size() > 0 ? double{l.param().loss_weight(0)} : 1.0;
  return weight == 0 ? 1 : weight;
}

}  // namespace moka
