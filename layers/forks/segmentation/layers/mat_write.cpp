// MatWrite (DeepLab): writes its bottoms to MATLAB files there. Moka writes no such files; a net with the layer runs,
// and the values are read as those of any blob.
#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMatWrite(LayerBuilder& l) {
  LogWarning(StrCat("layer \"", Printable(l.param().name()), "\": MatWrite writes no files here"));
}

}  // namespace

LayerDef MatWriteLayer() {
  return {
      .type = "MatWrite",
      .doc =
          "Reads its bottoms, so that they are no outputs of the net. The MATLAB files that its fork writes are not "
          "written; building the net says so in a warning.",
      .max_bottoms = -1,
      .min_tops = 0,
      .max_tops = 0,
      .build = BuildMatWrite,
      .page = {.params = {"mat_write_param"},
               .formula = "No tops: nothing is computed and, other than in its fork, no file is written.",
               .gradient = "None: the bottoms get no gradient from this layer.",
               .source = "The mat_write_layer of DeepLab's Caffe (Chen et al., arXiv 1412.7062), without its files.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 } } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "x" top: "sigmoid" }
layer { name: "write" type: "MatWrite" bottom: "sigmoid" mat_write_param { prefix: "scores/" } }
layer { name: "power" type: "Power" bottom: "x" top: "power" power_param { scale: 2 } })"}};
}

}  // namespace moka
