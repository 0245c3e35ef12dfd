// TRAIN: each element is zero with probability ratio, else x / (1 - ratio) (Srivastava et al. 2014). The mask is a
// function of the step's key, the layer's name and the element, so the backward pass draws it again instead of keeping
// it.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const double ratio = Finite(l, "dropout_param.dropout_ratio", l.param().dropout_param().dropout_ratio());
  l.Check(ratio >= 0 && ratio < 1, "dropout_param.dropout_ratio",
          StrCat("dropout_param.dropout_ratio must be in [0, 1), found ", ratio));
  if (l.phase() == TEST || ratio == 0) {
    l.SetTop(0, l.bottom(0));
    return;
  }
  // A stream number is an integer constant of the expression: exact up to 2^53.
  const uint64_t stream = StableHash(l.param().name()) & ((uint64_t{1} << 53U) - 1);
  const std::string text =
      StrCat("select(ge(rand(x1,", stream, "),", Number(ratio), "),x0*", Number(1 / (1 - ratio)), ",0)");
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0), l.RandomKey()}));
}

}  // namespace

LayerDef DropoutLayer() {
  return {.type = "Dropout",
          .doc = "TRAIN: zero with probability dropout_ratio, otherwise x / (1 - dropout_ratio). TEST: x itself.",
          .build = Build};
}

}  // namespace moka
