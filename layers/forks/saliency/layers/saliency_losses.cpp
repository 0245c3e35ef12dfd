// Losses of eye fixation prediction (DSCLRCN, Liu, Han, IEEE TIP 2018): the Kullback-Leibler divergence of a fixation
// map from a saliency map, and the normalised scanpath saliency. The former's gradient in the original treats its small
// numbers otherwise than its value does.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// Both maps as rows [N,H*W].
struct Maps {
  ValueId saliency;
  ValueId fixation;  // no gradient
  int64_t count;     // N
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
  const Term wanted = Term::Of(f);
  const Term total = Term::Of(whole);
  const Term slope = -wanted * (total - Term::Of(s)) / (total * Term::Of(s) + 1e-6);
  const ValueId dx = Computed(b, slope / maps.count, {s, f, whole});
  l.SetTop(0, WithGradients(l, Computed(b, Term::Of(sum) / maps.count), {{maps.saliency, dx}}));
  l.SetLoss(0, 1);
}

void BuildNss(LayerBuilder& l) {
  const Maps maps = ReadMaps(l);
  const ValueId sum = SumOf(l, "x0*x1/x2", {maps.saliency, maps.fixation, Magnitudes(l, maps.fixation)});
  l.SetTop(0, -Term::Of(sum) / maps.count);
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef KlDivLossLayer() {
  return {.type = "KLDivLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildKlDiv,
          .traits = {.is_loss = true}};
}

LayerDef NssLossLayer() {
  return {.type = "NSSLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildNss,
          .traits = {.is_loss = true}};
}

}  // namespace moka
