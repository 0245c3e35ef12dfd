// Deep supervised hashing (Liu, Wang, Shan, Chen, CVPR 2016): like pairs are drawn together, unlike ones pushed apart,
// and every value to -1 or 1. The original's gradient of the pairs is half the derivative of its value; it is kept.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

constexpr int64_t kMaxItems = 1 << 14;  // the pairs' matrices have its square

void BuildHashingLoss(LayerBuilder& l) {
  const HashingLossParameter& p = l.param().hashing_loss_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape labels = l.shape(1);
  l.Check(x.rank() >= 2 && x.Count() == x[0] * x[1], "bottom[0]",
          StrCat("the codes must be [N,C], found ", x.ToString()));
  l.Check(x[0] >= 2 && x[0] <= kMaxItems, "bottom[0]",
          StrCat("the loss is one of pairs: it needs 2 to ", kMaxItems, " items, found ", x[0]));
  l.Check(
      labels.rank() >= 1 && labels[0] == x[0], "bottom[1]",
      StrCat("bottom \"", l.param().bottom(1), "\" must have labels for ", x[0], " items, found ", labels.ToString()));
  const double margin = Finite(l, "hashing_loss_param.bi_margin", p.bi_margin());
  const double tradeoff = Finite(l, "hashing_loss_param.tradeoff", p.tradeoff());
  const int64_t n = x[0];
  const int64_t kinds = labels.Count() / n;
  const auto pairs = [&](const std::string& expr, ValueId rows, int64_t length) {
    const ValueId sum = b.Add1("reduce_sum", {b.Reshape(rows, {n, 1, length}), b.Reshape(rows, {1, n, length})},
                               {{"expr", expr}, {"axes", Ints{2}}});
    return b.Reshape(sum, {n, n});
  };
  const ValueId codes = b.Reshape(l.bottom(0), {n, x[1]});
  const ValueId distance = pairs("(x0-x1)*(x0-x1)", codes, x[1]);
  const ValueId like = pairs(kinds > 1 ? "x0*x1" : "eq(x0,x1)", Constant(l, l.bottom(1)), kinds);
  Doubles places;
  for (int64_t i = 0; i < n; ++i) places.push_back(static_cast<double>(i));
  const ValueId place = b.Add1("table", {}, {{"shape", Ints{n}}, {"values", places}});
  const std::vector<ValueId> inputs{distance, like, b.Reshape(place, {n, 1}), b.Reshape(place, {1, n})};
  const Term apart_by = Max(Decimal(margin) - Term::Of(distance), 0);
  const Term of_pair = Select(Term::Of(like) > 0, Term::Of(distance), apart_by);
  const ValueId sum = SumOf(l, (Term::Of(inputs[2]) < Term::Of(inputs[3])) * of_pair, inputs);
  const ValueId apart = SumOf(l, "abs(abs(x0)-1)", {codes});
  const double count = static_cast<double>(n);
  const Term pairs_sum = Term::Of(sum) + Term::Of(Constant(l, sum));
  l.SetTop(0, pairs_sum * Decimal(0.5 / (count * (count - 1))) + Term::Of(apart) * Decimal(tradeoff / count));
  l.NoteUnequal("compares all pairs of a batch, and a rank has the pairs of its part only");
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef HashingLossLayer() {
  return {.type = "HashingLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildHashingLoss,
          .traits = {.is_loss = true},
          .params = {"hashing_loss_param"}};
}

}  // namespace moka
