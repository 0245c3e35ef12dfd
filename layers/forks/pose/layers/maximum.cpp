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

LayerDef MaximumLayer() { return {.type = "Maximum", .build = BuildMaximum}; }

}  // namespace moka
