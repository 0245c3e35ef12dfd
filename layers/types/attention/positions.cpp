// The index along an axis, for tables of positions and masks.
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/ops/gradients.h"

namespace moka {
namespace {

void BuildPositions(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "positions_param.axis", l.param().positions_param().axis(), x);
  l.SetTop(0, l.b().Add1("positions", {}, {{"shape", DimsOf(x)}, {"axis", int64_t{axis}}}));
}

}  // namespace

LayerDef PositionsLayer() { return {.type = "Positions", .build = BuildPositions, .params = {"positions_param"}}; }

}  // namespace moka
