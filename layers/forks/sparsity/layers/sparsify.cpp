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
    const std::string t = Number(threshold);
    y = l.b().Pointwise(StrCat("select(gt(x0,", t, "),x0-", t, ",select(lt(x0,-", t, "),x0+", t, ",0))"), {y});
  }
  if (l.phase() == TRAIN && coef > 0) y = l.b().Add1("output_decay", {y}, {{"decay", coef}, {"l1", true}});
  l.SetTop(0, y);
}

}  // namespace

LayerDef SparsifyLayer() {
  return {
      .type = "Sparsify",
      .doc =
          "Values shrunk by sparsify_param.thre (default 0), to zero at the least, with an L1 regularisation of them "
          "in training, sparsify_param.coef (default 0). The top has the bottom's shape.",
      .build = BuildSparsify,
      .page = {.params = {"sparsify_param"},
               .formula = "`y = sign(x) * max(|x| - thre, 0)`: x itself for thre 0.",
               .gradient =
                   "TRAIN: `dx = dy + coef * sign(y)`, which with thre above 0 is 0 where y is. The regularisation "
                   "is in the gradient alone, whatever the loss weights.",
               .source = "The sparsify_layer of Wen's Caffe for sparse nets; what its field display logs is not shown.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "sparse" type: "Sparsify" bottom: "x" top: "sparse" sparsify_param { thre: 0.2 coef: 1e-4 } })"}};
}

}  // namespace moka
