// ClassMask: of a map a class the one of each region's class.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildClassMask(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [M,C,S,S], found ", x.ToString()));
  l.Check(l.shape(1) == Shape{x[0]}, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [", x[0], "], a class for each row, found ",
                 l.shape(1).ToString()));
  const GraphBuilder& b = l.b();
  const ValueId index = b.Add1("row_channels", {l.bottom(1)}, {{"channels", x[1]}});
  const ValueId rows = b.Reshape(l.bottom(0), Shape{x[0] * x[1], 1, x[2], x[3]});
  l.SetTop(0, b.Add1("reindex", {rows, index}, {{"has_ignore", true}, {"ignore_label", int64_t{-1}}}));
}

}  // namespace

LayerDef ClassMaskLayer() { return {.type = "ClassMask", .min_bottoms = 2, .max_bottoms = 2, .build = BuildClassMask}; }

}  // namespace moka
