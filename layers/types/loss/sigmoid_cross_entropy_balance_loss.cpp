// The sigmoid cross entropy of maps in which one of two classes is rare (edges, objects of a video): in each image the
// classes count the same (Xie, Tu, "Holistically-nested edge detection", ICCV 2015, equation 2).
#include "core/text.h"
#include "layers/net/layer.h"
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
  l.SetTop(0, b.Pointwise(StrCat("x0/", images), {sum}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef SigmoidCrossEntropyBalanceLossLayer() {
  return {
      .type = "SigmoidCrossEntropyBalanceLoss",
      .doc =
          "The cross entropy of sigmoid(x) and targets 0 or 1 of the same count, divided by the batch; in each item "
          "a positive is weighted by the share of negatives and a negative by the share of positives. Other targets "
          "make no loss.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildSigmoidCrossEntropyBalanceLoss,
      .page = {
          .formula =
              "With P and Q the numbers of targets 1 and 0 of an item: `y = (1/N) * sum over items of (Q/(P+Q) * "
              "sum of e where t = 1, plus P/(P+Q) * sum of e where t = 0)`, `e = log(1 + exp(x)) - x t`, a "
              "scalar. Its loss weight is 1 unless given.",
          .gradient =
              "`dx = dy * w * (sigmoid(x) - t) / N` with w the share above, 0 where t is neither 0 nor 1. Targets "
              "get none.",
          .source = "Holistically-nested edge detection (Xie, Tu, ICCV 2015), as the "
                    "sigmoid_cross_entropy_balance_loss_layer of OSVOS (Caelles et al., CVPR 2017) has it. That layer "
                    "passes sigmoid(x) - t, unweighted, where a target is neither 0 nor 1; here the gradient is the "
                    "derivative.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 5 } } }
layer { name: "edges" type: "Input" top: "edges" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 5 } } }
layer { name: "loss" type: "SigmoidCrossEntropyBalanceLoss" bottom: "x" bottom: "edges" top: "loss" })"}};
}

}  // namespace moka
