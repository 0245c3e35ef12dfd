// Triplet loss (FaceNet, arXiv 1503.03832; happynear/caffe-windows): max(0, margin + |a-p|^2 - |a-n|^2) summed over the
// batch and divided by 2N.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const double margin = Finite(l, "triplet_loss_param.margin", l.param().triplet_loss_param().margin());
  const std::vector<ValueId> inputs{Vectors(l, 0), Vectors(l, 1), Vectors(l, 2)};
  const int64_t count = l.shape(0)[0];
  // |a-p|^2 - |a-n|^2 of each triplet, [N,1].
  const ValueId gap =
      l.b().Add1("reduce_sum", inputs, {{"expr", std::string("(x0-x1)*(x0-x1)-(x0-x2)*(x0-x2)")}, {"axes", Ints{1}}});
  const ValueId sum = SumOf(l, StrCat("max(x0+", Number(margin), ",0)"), {gap});
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", (Size(2) * count).value()), {sum}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef TripletLossLayer() {
  return {.type = "TripletLoss",
          .doc =
              "Bottoms: anchors a, positives p, negatives n, all [N,C]. The sum of max(0, triplet_loss_param.margin + "
              "|a-p|^2 - |a-n|^2) divided by 2N; all three get gradients.",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .auto_tops = true,
          .build = Build};
}

}  // namespace moka
