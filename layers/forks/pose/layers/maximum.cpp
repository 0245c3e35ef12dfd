// Maximum: where each map is highest.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaximum(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x.Count() > 0, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.SetTop(0, l.b().Add1("map_maxima", {l.bottom(0)}));
}

}  // namespace

LayerDef MaximumLayer() {
  return {
      .type = "Maximum",
      .doc = "The highest place of each map of [N,C,H,W]: [N,C,1,3], x, y and the value. No gradient.",
      .build = BuildMaximum,
      .page = {
          .params = {},
          .formula = "`(x, y, v)` of the first of the highest values v, row by row.",
          .gradient = "None: the bottom gets none.",
          .source = "The maximum_layer of CMU's caffe_rtpose (Cao et al., arXiv 1611.08050), as it computes on "
                    "GPUs; its CPU code leaves values up to FLT_MIN out.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 6 } } }
layer { name: "joints" type: "Maximum" bottom: "x" top: "joints" })"}};
}

}  // namespace moka
