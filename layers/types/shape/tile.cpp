// The bottom repeated along an axis.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildTile(LayerBuilder& l) {
  const TileParameter& p = l.param().tile_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "tile_param.axis", p.axis(), x);
  l.Check(p.tiles() >= 1, "tile_param.tiles",
          StrCat("tile_param.tiles must be given and at least 1, found ", p.tiles()));
  const int64_t outer = x.Count(0, axis);
  const int64_t inner = x.Count(axis, x.rank());
  const ValueId row = l.b().Reshape(l.bottom(0), {outer, 1, inner});
  const ValueId rows = l.b().Add1("expand", {row}, {{"shape", Ints{outer, p.tiles(), inner}}});
  l.SetTop(0, l.b().Reshape(rows, x.With(axis, (Size(x[axis]) * p.tiles()).value())));
}

}  // namespace

LayerDef TileLayer() {
  return {.type = "Tile", .build = BuildTile, .traits = {.hands_on = true}, .params = {"tile_param"}};
}

}  // namespace moka
