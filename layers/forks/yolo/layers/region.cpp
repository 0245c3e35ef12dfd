// Region: the activations of YOLO v2's last map, box by box (BirdeeChen's port).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildRegion(LayerBuilder& l) {
  const RegionParameter& p = l.param().region_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(p.coords() == 4, "region_param.coords", StrCat("a box has 4 coordinates, found ", p.coords()));
  l.Check(!p.has_num() || !p.has_boxes_of_each_grid() || p.num() == p.boxes_of_each_grid(), "region_param.num",
          StrCat("num is another name of boxes_of_each_grid, found ", p.num(), " and ", p.boxes_of_each_grid()));
  const int64_t boxes = p.has_num() ? p.num() : p.boxes_of_each_grid();
  l.Check(p.classes() >= 1 && boxes >= 1, "region_param", "classes and boxes_of_each_grid must be at least 1");
  const int64_t values = int64_t{5} + p.classes();
  l.Check(x.rank() == 4 && x[1] == boxes * values, "bottom[0]",
          StrCat("the bottom must be [N,", boxes, "*(5+", p.classes(), "),H,W], found ", x.ToString()));
  const ValueId planes = b.Reshape(l.bottom(0), {x[0], x[1], x[2] * x[3]});
  const ValueId cells = b.Add1("transpose", {planes}, {{"perm", Ints{0, 2, 1}}});
  const ValueId rows = b.Reshape(cells, {x[0], x[2] * x[3] * boxes, values});
  const std::vector<ValueId> parts =
      b.Add("slice", {rows}, {{"axis", int64_t{2}}, {"sizes", Ints{4, 1, int64_t{p.classes()}}}});
  const ValueId objectness = b.Pointwise("1/(1+exp(-x0))", {parts[1]});
  const ValueId classes = p.softmax() ? b.Add1("softmax", {parts[2]}, {{"axis", int64_t{2}}}) : parts[2];
  const ValueId joined = b.Add1("concat", {parts[0], objectness, classes}, {{"axis", int64_t{2}}});
  l.SetTop(0, b.Reshape(joined, x));
}

}  // namespace

LayerDef RegionLayer() { return {.type = "Region", .build = BuildRegion, .params = {"region_param"}}; }

}  // namespace moka
