// y = amplitude * max(-1, min(1, slope * x)): the tangent's three straight lines (Collobert, "Large scale machine
// learning", 2004).
#include "graph/term.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildHardTanh(LayerBuilder& l) {
  const HardTanHParameter& p = l.param().hard_tanh_param();
  const double amplitude = Finite(l, "hard_tanh_param.amplitude", p.amplitude());
  const double slope = Finite(l, "hard_tanh_param.slope", p.slope());
  const Term x = Term::Input(0);
  l.SetTop(0, l.b().Pointwise((amplitude * Max(-1, Min(1, slope * x))).text(), {l.bottom(0)}));
}

}  // namespace

LayerDef HardTanhLayer() { return {.type = "HardTanH", .build = BuildHardTanh, .params = {"hard_tanh_param"}}; }

}  // namespace moka
