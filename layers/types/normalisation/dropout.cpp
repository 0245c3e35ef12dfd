// TRAIN: each element is zero with probability ratio, else x / (1 - ratio) (Srivastava et al. 2014). The mask is a
// function of the step's key, the layer's name and the element, so the backward pass draws it again instead of keeping
// it. Forks scale in TEST instead (Fast R-CNN's scale_train), or draw in TEST too (Bayesian SegNet).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildDropout(LayerBuilder& l) {
  const DropoutParameter& p = l.param().dropout_param();
  const double ratio = Finite(l, "dropout_param.dropout_ratio", p.dropout_ratio());
  l.Check(ratio >= 0 && ratio <= 1, "dropout_param.dropout_ratio",
          StrCat("dropout_param.dropout_ratio must be in [0, 1], found ", ratio));
  if (ratio == 0) return l.SetTop(0, l.bottom(0));
  if (l.phase() == TEST && !p.sample_weights_test()) {
    return l.SetTop(0, p.scale_train() ? l.bottom(0) : Computed(l.b(), l.Bottom(0) * Decimal(1 - ratio)));
  }
  if (ratio == 1) return l.SetTop(0, l.b().Full(l.shape(0), 0));
  const Term x = l.Bottom(0);
  const Term kept = p.scale_train() ? x * Decimal(1 / (1 - ratio)) : x;
  const Term y = Select(Uniform(l) >= Decimal(ratio), kept, 0);
  l.SetTop(0, l.b().Pointwise(y, {l.bottom(0), l.RandomKey()}));
}

}  // namespace

LayerDef DropoutLayer() {
  return {.type = "Dropout",
          .build = BuildDropout,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .params = {"dropout_param"}};
}

}  // namespace moka
