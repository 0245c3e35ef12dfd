// y = 1 if x > threshold, else 0; no gradient.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildThreshold(LayerBuilder& l) {
  const double threshold = Finite(l, "threshold_param.threshold", l.param().threshold_param().threshold());
  l.SetTop(0, l.b().Pointwise(StrCat("gt(x0,", Number(threshold), ")"), {l.bottom(0)}));
}

}  // namespace

LayerDef ThresholdLayer() {
  return {
      .type = "Threshold",
      .doc =
          "1 where x > threshold_param.threshold (default 0), else 0; the top has the bottom's shape. "
          "No gradient.",
      .build = BuildThreshold,
      .page = {.params = {"threshold_param"},
               .formula = "`y = 1` if x > threshold, else 0, element by element; threshold defaults to 0. The top has "
                          "the bottom's shape.",
               .gradient = "None: the bottom gets none.",
               .source = "BVLC Caffe's threshold_layer.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "mask" type: "Threshold" bottom: "x" top: "mask" threshold_param { threshold: 0.5 } })"}};
}

}  // namespace moka
