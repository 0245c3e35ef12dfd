// Self-normalising networks (Klambauer et al., arXiv 1706.02515): the activation and its dropout, which sets values to
// the activation's limit at -infinity and keeps mean and variance by an affine map.
#include <cmath>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildSelu(LayerBuilder& l) {
  const Term alpha = Decimal(Finite(l, "selu_param.alpha", l.param().selu_param().alpha()));
  const Term lambda = Decimal(Finite(l, "selu_param.lambda", l.param().selu_param().lambda()));
  const Term x = l.Bottom(0);
  l.SetTop(0, lambda * Select(x > 0, x, alpha * (Exp(x) - 1)));
}

void BuildDropout(LayerBuilder& l) {
  const SeLUDropoutParameter& p = l.param().selu_dropout_param();
  const double ratio = Finite(l, "selu_dropout_param.dropout_ratio", p.dropout_ratio());
  const double limit = Finite(l, "selu_dropout_param.alpha", p.alpha());
  l.Check(ratio >= 0 && ratio < 1, "selu_dropout_param.dropout_ratio",
          StrCat("selu_dropout_param.dropout_ratio must be in [0, 1), found ", ratio));
  if (l.phase() == TEST || ratio == 0) return l.SetTop(0, l.bottom(0));
  const double kept = 1 - ratio;
  const double a = 1 / std::sqrt(kept * (1 + limit * limit * ratio));
  const double b = -a * ratio * limit;
  const Term is_kept = Uniform(l) >= Decimal(ratio);
  const Term y = Decimal(a) * Select(is_kept, l.Bottom(0), Decimal(limit)) + Decimal(b);
  l.SetTop(0, l.b().Pointwise(y, {l.bottom(0), l.RandomKey()}));
}

}  // namespace

LayerDef SeluLayer() { return {.type = "SeLu", .build = BuildSelu, .params = {"selu_param"}}; }

LayerDef SeluDropoutLayer() { return {.type = "SeLuDropout", .build = BuildDropout, .params = {"selu_dropout_param"}}; }

}  // namespace moka
