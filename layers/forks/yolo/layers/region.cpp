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

LayerDef RegionLayer() {
  return {
      .type = "Region",
      .doc =
          "YOLO v2's map [N, boxes_of_each_grid*(5+classes), H, W] as a row (x, y, w, h, objectness, classes) for each "
          "box of each cell, the objectness through a sigmoid and, with softmax, the classes through a softmax. The "
          "top has the bottom's shape and the rows in memory order. Converters from darknet write num for "
          "boxes_of_each_grid.",
      .build = BuildRegion,
      .page = {
          .params = {"region_param"},
          .formula = "The top's memory is [N, H W, boxes, 5 + classes]: `y[n, h W + w, k, c] = x[n, k (5 + classes) + "
                     "c, h, w]`, with `1 / (1 + exp(-x))` for c = 4 and, with softmax, the softmax over the "
                     "classes for c > 4.",
          .gradient = "That of the formula (the original has none).",
          .source = "BirdeeChen's Caffe port of YOLO v2 (Redmon, Farhadi, arXiv 1612.08242), where the field softmax "
                    "is in the schema but never read; here it is. anchors and biases are not used, as there.",
          .example =
              R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 14 dim: 2 dim: 3 } } }
layer {
  name: "region"
  type: "Region"
  bottom: "x"
  top: "region"
  region_param { classes: 2 boxes_of_each_grid: 2 softmax: true }
})"}};
}

}  // namespace moka
