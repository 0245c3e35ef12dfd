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
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", (Size(2) * l.shape(0)[0]).value()), {sum}));
  l.SetLoss(0, 1);
}

}  // namespace

ValueId TripletHinges(const LayerBuilder& l, double margin) {
  const std::vector<ValueId> inputs{Vectors(l, 0), Vectors(l, 1), Vectors(l, 2)};
  const ValueId gap =
      l.b().Add1("reduce_sum", inputs, {{"expr", std::string("(x0-x1)*(x0-x1)-(x0-x2)*(x0-x2)")}, {"axes", Ints{1}}});
  return l.b().Pointwise(StrCat("max(x0+", Number(margin), ",0)"), {gap});
}

LayerDef TripletLossLayer() {
  return {
      .type = "TripletLoss",
      .doc =
          "Bottoms: anchors a, positives p, negatives n, all [N,C]. The sum of max(0, triplet_loss_param.margin + "
          "|a-p|^2 - |a-n|^2) divided by 2N; all three get gradients. With two bottoms, features [N,..] and triplets "
          "[T,3] of their rows (SampleTriplet's), the sum is divided by T and the gradient a rule of its own.",
      .min_bottoms = 2,
      .max_bottoms = 3,
      .auto_tops = true,
      .build = BuildTripletLoss,
      .page = {.params = {"triplet_loss_param"},
               .formula =
                   "`y = sum over n of max(0, margin + |a_n - p_n|^2 - |a_n - q_n|^2) / (2 N)`, a scalar; "
                   "a, p and q are bottoms 0, 1 and 2 (anchors, positives, negatives), [N,C] with later "
                   "dimensions 1. margin is 1 unless given, the loss weight too.\n\nTwo bottoms: `y = sum over t "
                   "of max(0, |a-p|^2 - |a-n|^2 + margin) / T`, a, p and n being the rows that triplet t "
                   "names, margin 0.2 unless given; a triplet with -1 adds nothing.",
               .gradient = "Where the max is above 0: `da = dy * (q - p) / N`, `dp = dy * (p - a) / N`, `dq = dy * "
                           "(a - q) / N`; elsewhere 0. Two bottoms, by a rule of its own: each triplet in turn, "
                           "whatever it adds to y, sets the gradient of row a to `2 (n - p) / T * dy`, of p to `2 "
                           "(p - a) / T * dy` and of n to `2 (a - p) / T * dy`; the last one that names a row "
                           "counts.",
               .source = "FaceNet (Schroff, Kalenichenko, Philbin, arXiv 1503.03832); happynear's caffe-windows, "
                         "triplet_loss_layer; two bottoms: yuqj1991's Caffe, triplet_loss_layer.",
               .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "p" type: "Input" top: "p" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "n" type: "Input" top: "n" input_param { shape { dim: 4 dim: 3 } } }
layer {
  name: "loss"
  type: "TripletLoss"
  bottom: "a"
  bottom: "p"
  bottom: "n"
  top: "loss"
  triplet_loss_param { margin: 0.2 }
})"}};
}

}  // namespace moka
