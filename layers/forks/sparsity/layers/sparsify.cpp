// Sparsify: sparse activations (Wen's Caffe).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Soft thresholds, with an L1 penalty on what is left.
void BuildSparsify(LayerBuilder& l) {
  const double threshold = Finite(l, "sparsify_param.thre", l.param().sparsify_param().thre());
  const double coef = Finite(l, "sparsify_param.coef", l.param().sparsify_param().coef());
  l.Check(threshold >= 0, "sparsify_param.thre", StrCat("thre must not be negative, found ", threshold));
  l.Check(coef >= 0, "sparsify_param.coef", StrCat("coef must not be negative, found ", coef));
  ValueId y = l.bottom(0);
  if (threshold > 0) {
    const Term t = Decimal(threshold);
    const Term x = l.Bottom(0);
    y = Computed(l.b(), Select(x > t, x - t, Select(x < -t, x + t, 0)));
  }
  if (l.phase() == TRAIN && coef > 0) y = l.b().Add1("output_decay", {y}, {{"decay", coef}, {"l1", true}});
  l.SetTop(0, y);
}

}  // namespace

LayerDef SparsifyLayer() { return {.type = "Sparsify", .build = BuildSparsify, .params = {"sparsify_param"}}; }

}  // namespace moka
