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

LayerDef PositionsLayer() {
  return {
      .type = "Positions",
      .doc =
          "The index along positions_param.axis (default 0: time) at each place of the bottom, whose values do not "
          "matter; an Embed behind it learns a vector for each position.",
      .build = BuildPositions,
      .page = {.params = {"positions_param"},
               .formula = "`y[.., i, ..] = i` along the axis; the top has the bottom's shape.",
               .gradient = "None: the bottom's values have no part in the top.",
               .source =
                   "Moka's own; learned positions: Gehring et al., \"Convolutional sequence to sequence learning\", "
                   "arXiv 1705.03122.",
               .example = R"(layer { name: "words" type: "Input" top: "words" input_param { shape { dim: 5 dim: 2 } } }
layer { name: "positions" type: "Positions" bottom: "words" top: "positions" })"}};
}

}  // namespace moka
