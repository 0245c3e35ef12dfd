// Images mirrored (happynear/caffe-windows).
#include "core/text.h"
#include "graph/attributes.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildFlip(LayerBuilder& l) {
  const FlipParameter& p = l.param().flip_param();
  l.Check(l.shape(0).rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", l.shape(0).ToString()));
  Ints axes;
  if (p.flip_height()) axes.push_back(2);
  if (p.flip_width()) axes.push_back(3);
  l.SetTop(0, axes.empty() ? l.bottom(0) : l.b().Add1("flip", {l.bottom(0)}, {{"axes", axes}}));
}

}  // namespace

LayerDef FlipLayer() {
  return {
      .type = "Flip",
      .doc =
          "The images [N,C,H,W] mirrored: left to right with flip_param.flip_width (default true), upside down "
          "with flip_height (default false).",
      .build = BuildFlip,
      .page = {
          .params = {"flip_param"},
          .formula = "`y[n,c,h,w] = x[n,c,h',w']` with `w' = W-1-w` under flip_width (default true), else w, and "
                     "`h' = H-1-h` under flip_height (default false), else h. The top has the bottom's shape "
                     "[N,C,H,W].",
          .gradient = "`dx` is `dy` mirrored in the same way.",
          .source = "The Flip layer of happynear/caffe-windows.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 6 } } }
layer {
  name: "flip"
  type: "Flip"
  bottom: "x"
  top: "flip"
  flip_param { flip_width: true flip_height: true }
})"}};
}

}  // namespace moka
