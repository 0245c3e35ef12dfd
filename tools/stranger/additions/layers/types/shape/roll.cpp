// The bottom turned round along an axis, as in shifted windows (Liu et al., "Swin Transformer", arXiv 2103.14030).
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRoll(LayerBuilder& l) {
  const RollParameter& p = l.param().roll_param();
  const int axis = AxisOf(l, "roll_param.axis", p.axis(), l.shape(0));
  l.SetTop(0, l.b().Add1("roll", {l.bottom(0)}, {{"axis", int64_t{axis}}, {"shift", int64_t{p.shift()}}}));
}

}  // namespace

LayerDef RollLayer() { return {.type = "Roll", .build = BuildRoll, .params = {"roll_param"}}; }

}  // namespace moka
