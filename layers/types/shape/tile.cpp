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
  return {
      .type = "Tile",
      .doc =
          "tile_param.tiles copies of the bottom, one after the other along tile_param.axis (default "
          "1); other axes stay.",
      .build = BuildTile,
      .page = {.params = {"tile_param"},
               .formula = "`y[.., i, ..] = x[.., i mod d, ..]` along `axis` (default 1, negative counts from the end), "
                          "of d elements in x and d * tiles in y; `tiles` must be given.",
               .gradient = "`dx[.., i, ..]` is the sum of `dy` over the tiles copies of element i.",
               .source = "BVLC Caffe's tile_layer.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "tile" type: "Tile" bottom: "x" top: "tile" tile_param { axis: 1 tiles: 2 } })"}};
}

}  // namespace moka
