// y = exp(x) / sum of exp(x) along an axis.
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void BuildSoftmax(LayerBuilder& l) {
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), l.shape(0));
  l.SetTop(0, l.b().Add1("softmax", {l.bottom(0)}, {{"axis", int64_t{axis}}}));
}

}  // namespace

LayerDef SoftmaxLayer() {
  return {
      .type = "Softmax",
      .doc =
          "exp(x) divided by its sum along softmax_param.axis (default 1); the top has the bottom's "
          "shape.",
      .build = BuildSoftmax,
      .page = {
          .params = {"softmax_param"},
          .formula = "`y_c = exp(x_c - m) / sum_k exp(x_k - m)` with `m = max_k x_k`, along `axis` (default 1, "
                     "negative counts from the end); the top has the bottom's shape.",
          .gradient = "`dx_c = y_c * (dy_c - sum_k y_k dy_k)`, sums along the axis.",
          .source = "BVLC Caffe's softmax_layer; `engine` is read and ignored.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 5 dim: 3 dim: 3 } } }
layer {
  name: "softmax"
  type: "Softmax"
  bottom: "x"
  top: "softmax"
  softmax_param { axis: 1 }
})"}};
}

}  // namespace moka
