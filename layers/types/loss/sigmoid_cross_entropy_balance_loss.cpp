// The sigmoid cross entropy of maps in which one of two classes is rare (edges, objects of a video): in each image the
// classes count the same (Xie, Tu, "Holistically-nested edge detection", ICCV 2015, equation 2).
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildSigmoidCrossEntropyBalanceLoss(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const ValueId target = Constant(l, Like0(l, 1));
  const int64_t images = l.shape(0)[0];
  const Shape rows{images, l.shape(0).Count() / images};
  const ValueId x = b.Reshape(l.bottom(0), rows);
  const ValueId t = b.Reshape(target, rows);
  const auto count = [&](const char* expr) {
    return b.Add1("reduce_sum", {t}, {{"expr", std::string(expr)}, {"axes", Ints{1}}});
  };
  const ValueId positive = count("eq(x0,1)");
  const ValueId negative = count("eq(x0,0)");
  // The other class's share of an image's marked pixels; no pixel is both.
  const ValueId weight = b.Pointwise("(eq(x0,1)*x2+eq(x0,0)*x1)/max(x1+x2,1)", {t, positive, negative});
  // log(1 + exp(x)) - x t, without overflow.
  const ValueId sum = SumOf(l, "x2*(max(x0,0)-x0*x1+log(1+exp(-abs(x0))))", {x, t, weight});
  l.SetTop(0, Term::Of(sum) / images);
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef SigmoidCrossEntropyBalanceLossLayer() {
  return {.type = "SigmoidCrossEntropyBalanceLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildSigmoidCrossEntropyBalanceLoss,
          .traits = {.is_loss = true},
          .needs = NeedEqualCounts};
}

}  // namespace moka
