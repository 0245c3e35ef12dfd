// Reads blobs so that they are not printed as outputs.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildSilence(LayerBuilder& l) { Require(l.top_count() == 0, "Silence has no tops"); }

}  // namespace

LayerDef SilenceLayer() {
  return {.type = "Silence",
          .doc = "Reads its bottoms, so that they are no outputs of the net.",
          .max_bottoms = -1,
          .min_tops = 0,
          .max_tops = 0,
          .build = BuildSilence,
          .page = {.params = {},
                   .formula = "No tops: nothing is computed.",
                   .gradient = "None: the bottoms get no gradient from this layer.",
                   .source = "BVLC Caffe's silence_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer {
  name: "halves"
  type: "Slice"
  bottom: "x"
  top: "left"
  top: "right"
}
layer { name: "silence" type: "Silence" bottom: "right" }
layer { name: "sigmoid" type: "Sigmoid" bottom: "left" top: "sigmoid" })"}};
}

}  // namespace moka
