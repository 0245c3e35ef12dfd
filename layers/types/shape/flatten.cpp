// Axes axis..end_axis become one.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"

namespace moka {
namespace {

void BuildFlatten(LayerBuilder& l) {
  const FlattenParameter& p = l.param().flatten_param();
  const Shape x = l.shape(0);
  const int begin = AxisOf(l, "flatten_param.axis", p.axis(), x);
  const int end = AxisOf(l, "flatten_param.end_axis", p.end_axis(), x);
  l.Check(begin <= end, "flatten_param.end_axis",
          StrCat("flatten_param.end_axis ", p.end_axis(), " lies before axis ", p.axis(), " of ", x.ToString()));
  const Shape y = Joined(Joined(Part(x, 0, begin), {x.Count(begin, end + 1)}), Part(x, end + 1, x.rank()));
  l.SetTop(0, l.b().Reshape(l.bottom(0), y));
}

BottomShapes BottomsOfFlatten(const TopNeed& need) {
  return need.top.rank() == 2 ? FirstBottom(need.top) : BottomShapes{};
}

}  // namespace

LayerDef FlattenLayer() {
  return {.type = "Flatten",
          .build = BuildFlatten,
          .traits = {.hands_on = true},
          .bottoms = BottomsOfFlatten,
          .params = {"flatten_param"}};
}

}  // namespace moka
