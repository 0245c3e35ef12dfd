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

LayerDef FlipLayer() { return {.type = "Flip", .build = BuildFlip, .params = {"flip_param"}}; }

}  // namespace moka
