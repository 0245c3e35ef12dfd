// Losses of eye fixation prediction (DSCLRCN, Liu, Han, IEEE TIP 2018): the Kullback-Leibler divergence of a fixation
// map from a saliency map, and the normalised scanpath saliency. The former's gradient in the original treats its small
// numbers otherwise than its value does.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// Both maps as rows [N,H*W].
struct Maps {
  ValueId saliency;
  ValueId fixation;  // no gradient
  int64_t count;
};

Maps ReadMaps(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x[1] == 1 && x.Count() >= 1, "bottom[0]",
          StrCat("the maps must be [N,1,H,W], found ", x.ToString()));
  l.Check(l.shape(1) == x, "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 l.shape(1).ToString(), " must have one shape"));
  const Shape rows{x[0], x[2] * x[3]};
  return {l.b().Reshape(l.bottom(0), rows), l.b().Reshape(Constant(l, l.bottom(1)), rows), x[0]};
}

ValueId Magnitudes(const LayerBuilder& l, ValueId rows) {
  return l.b().Add1("reduce_sum", {rows}, {{"expr", std::string("abs(x0)")}, {"axes", Ints{1}}});
}

void BuildKlDiv(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Maps maps = ReadMaps(l);
  const ValueId s = Constant(l, maps.saliency);
  const ValueId whole = Magnitudes(l, s);
  const ValueId f = b.Pointwise("x0/(x1+1e-6)", {maps.fixation, Magnitudes(l, maps.fixation)});
  const ValueId sum = SumOf(l, "x1*log(x1/(x0/(x2+1e-6)+1e-6)+1e-6)", {s, f, whole});
  const ValueId dx = b.Pointwise(StrCat("-x1*(x2-x0)/(x2*x0+1e-6)/", maps.count), {s, f, whole});
  l.SetTop(0, WithGradients(l, b.Pointwise(StrCat("x0/", maps.count), {sum}), {{maps.saliency, dx}}));
  l.SetLoss(0, 1);
}

void BuildNss(LayerBuilder& l) {
  const Maps maps = ReadMaps(l);
  const ValueId sum = SumOf(l, "x0*x1/x2", {maps.saliency, maps.fixation, Magnitudes(l, maps.fixation)});
  l.SetTop(0, l.b().Pointwise(StrCat("-x0/", maps.count), {sum}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef KlDivLossLayer() {
  return {
      .type = "KLDivLoss",
      .doc =
          "Bottoms: a saliency map and a fixation map, both [N,1,H,W]. Each is divided by the sum of its magnitudes; "
          "the loss is the Kullback-Leibler divergence of the second from the first, its mean over the batch. No "
          "fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildKlDiv,
      .page = {
          .params = {},
          .formula = "With e = 1e-6, S and F the sums of |s| and |t| over an image, `f = t / (F + e)`: `y = sum "
                     "of f log(f / (s / (S + e) + e) + e) / N`, a scalar. Its loss weight is 1 unless given.",
          .gradient = "`ds = -dy f (S - s) / (S s + e) / N`, the derivative but for e. The fixation map gets "
                      "none.",
          .source = "A deep spatial contextual long-term recurrent convolutional network for saliency "
                    "detection (Liu, Han, arXiv 1610.01708); DSCLRCN's Caffe, kldiv_loss_layer.",
          .example = R"(layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 5 } } }
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 5 } } }
layer { name: "loss" type: "KLDivLoss" bottom: "s" bottom: "t" top: "loss" })"}};
}

LayerDef NssLossLayer() {
  return {
      .type = "NSSLoss",
      .doc =
          "Bottoms: a saliency map, meant to have mean 0 and variance 1 (MVN), and a fixation map, both [N,1,H,W]: "
          "minus the mean saliency at the fixations, its mean over the batch. No fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildNss,
      .page = {
          .params = {},
          .formula = "`y = -sum of s t / T / N`, a scalar, T the sum of |t| over an image; not a number where a "
                     "fixation map is all 0. Its loss weight is 1 unless given.",
          .gradient = "`ds = -dy t / T / N`. The fixation map gets none.",
          .source = "A deep spatial contextual long-term recurrent convolutional network for saliency "
                    "detection (Liu, Han, arXiv 1610.01708); DSCLRCN's Caffe, nss_loss_layer.",
          .example = R"(layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 5 } } }
layer { name: "t" type: "Input" top: "t" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 5 } } }
layer { name: "loss" type: "NSSLoss" bottom: "s" bottom: "t" top: "loss" })"}};
}

}  // namespace moka
