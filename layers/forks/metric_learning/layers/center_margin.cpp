#include "layers/forks/metric_learning/layers/center_margin.h"

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

ValueId RowSum(const LayerBuilder& l, const std::string& expr, const std::vector<ValueId>& inputs) {
  return l.b().Add1("reduce_sum", inputs, {{"expr", expr}, {"axes", Ints{1}}});
}

}  // namespace

ValueId DrawnPart(const LayerBuilder& l, const MarginRows& rows, bool is_cosine, double margin, double guard) {
  const ValueId x = Constant(l, rows.x);
  const ValueId center = Constant(l, rows.center);
  const std::string m = Number(margin);
  if (!is_cosine) {
    const ValueId square = RowSum(l, "(x0-x1)*(x0-x1)", {x, center});
    return l.b().Pointwise(StrCat("select(gt(x0,0),max((sqrt(x0)-", m, ")/sqrt(x0),0),0)"), {square});
  }
  // r, s, t = |x|^2, x.c, |c|^2; a p^2 + b p + c = 0 where the cosine of x + p (c - x) and c is the margin.
  const ValueId r = RowSum(l, "x0*x0", {x});
  const ValueId s = RowSum(l, "x0*x1", {x, center});
  const ValueId t = RowSum(l, "x0*x0", {center});
  const std::string rest = Number(1 - margin * margin);
  const std::string square = Number(margin * margin);
  const std::string root = guard > 0 ? StrCat("sqrt(t1*t1-4*t2*t0+", Number(guard), ")") : "sqrt(max(t1*t1-4*t2*t0,0))";
  const std::string first_fits = StrCat("gt(t4,", guard > 0 ? "0" : "-0.000001", ")*lt(t4,1.000001)");
  return l.b().Pointwise(
      StrCat("t0=x1*x1-", square, "*x0*x2;t1=2*(", rest, "*x1*x2-t0);t2=", rest, "*x2*(x2-2*x1)+t0;t3=", root,
             ";t4=(-t1+t3)/(2*t2);t5=(-t1-t3)/(2*t2);select(lt(x1/sqrt(x0)/sqrt(x2),", m,
             "),select(max(lt(t4*t5,0),gt(t4+t5,1)),select(", first_fits, ",t4,t5),max(t4,t5)),0)"),
      {r, s, t});
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
