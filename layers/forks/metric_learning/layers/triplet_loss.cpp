// Triplet loss (FaceNet, arXiv 1503.03832; happynear/caffe-windows): max(0, margin + |a-p|^2 - |a-n|^2) summed over the
// batch and divided by 2N.
#include "core/text.h"
#include "layers/forks/metric_learning/layers/triplets.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// yuqj1991's: features [N,..] and triplets of their rows.
void BuildRows(LayerBuilder& l) {
  constexpr double kMargin = 0.2;
  const TripletLossParameter& p = l.param().triplet_loss_param();
  const double margin = p.has_margin() ? Finite(l, "triplet_loss_param.margin", p.margin()) : kMargin;
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const Shape t = l.shape(1);
  l.Check(x.rank() >= 2 && x.Count() > 0, "bottom[0]", StrCat("the bottom must be [N,..], found ", x.ToString()));
  l.Check(t.rank() >= 2 && t[0] > 0 && t.Count() == t[0] * 3, "bottom[1]",
          StrCat("with two bottoms \"", l.param().bottom(1), "\" must be triplets [T,3], found ", t.ToString()));
  const ValueId rows = b.Reshape(l.bottom(0), {x[0], x.Count(1, x.rank())});
  const std::vector<ValueId> y =
      b.Add("triplet_rows_loss", {rows, b.Reshape(l.bottom(1), {t[0], 3})}, {{"margin", margin}});
  l.NoteUnequal("takes triplets of a batch's rows, and a rank has those of its part only");
  l.SetTop(0, WithGradients(l, y[0], {{rows, y[1]}}));
  l.SetLoss(0, 1);
}

void BuildTripletLoss(LayerBuilder& l) {
  if (l.bottom_count() == 2) return BuildRows(l);
  const double margin = Finite(l, "triplet_loss_param.margin", l.param().triplet_loss_param().margin());
  const ValueId sum = SumOf(l, "x0", {TripletHinges(l, margin)});
  l.SetTop(0, Term::Of(sum) / (Size(2) * l.shape(0)[0]).value());
  l.SetLoss(0, 1);
}

}  // namespace

ValueId TripletHinges(const LayerBuilder& l, double margin) {
  const std::vector<ValueId> inputs{Vectors(l, 0), Vectors(l, 1), Vectors(l, 2)};
  const ValueId gap =
      l.b().Add1("reduce_sum", inputs, {{"expr", std::string("(x0-x1)*(x0-x1)-(x0-x2)*(x0-x2)")}, {"axes", Ints{1}}});
  return Computed(l.b(), Max(Term::Of(gap) + Decimal(margin), 0));
}

LayerDef TripletLossLayer() {
  return {.type = "TripletLoss",
          .min_bottoms = 2,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = BuildTripletLoss,
          .traits = {.is_loss = true},
          .params = {"triplet_loss_param"}};
}

}  // namespace moka
