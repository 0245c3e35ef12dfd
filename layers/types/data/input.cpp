// Tops fed by the caller.
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildInput(LayerBuilder& l) {
  l.Check(l.param().input_param().shape_size() > 0, "input_param", "input_param.shape must be given");
  l.AddData(TopTypes(l, "input_param.shape", l.param().input_param().shape()));
}

}  // namespace

LayerDef InputLayer() {
  return {.type = "Input",
          .doc = "Tops fed by the caller, of input_param.shape (one for all tops or one each).",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildInput,
          .page = {.params = {"input_param"},
                   .formula =
                       "Top i holds what the caller gives for it; it has the dims of `shape[i]`, or of the only shape.",
                   .gradient = "None: the layer has no bottoms, its tops come from outside.",
                   .source = "BVLC Caffe's input_layer.",
                   .example = R"(layer {
  name: "in"
  type: "Input"
  top: "data"
  top: "label"
  input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } shape { dim: 2 } }
})"}};
}

}  // namespace moka
