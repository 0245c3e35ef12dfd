// pycaffe-yolo's Python layers (Zehaos): YOLO's loss of 2016 (Redmon et al., arXiv 1506.02640) and its loader's shapes.
#include "core/text.h"
#include "layers/forks/rcnn/layers/region_values.h"
#include "layers/net/fields.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/python/python.h"

namespace moka {
namespace {

struct Fields {
  int64_t classes;
  int64_t side;
  int64_t boxes;
  bool has_roots;  // predictions of width and height are their square roots
};

Fields FieldsOf(const LayerBuilder& l, const PythonFields& fields) {
  l.Check(fields.Count("coords", 4, 1) == 4, "python_param.param_str", "python_param.param_str: 'coords' must be 4");
  return {fields.Count("classes", 20, 1), fields.Count("side", 7, 1), fields.Count("num", 2, 1),
          fields.Flag("sqrt", true)};
}

// What the loss reads, a row a cell of the batch.
struct Cells {
  ValueId classes;              // [cells,C]
  ValueId scores;               // [cells,B]
  std::vector<ValueId> box;     // x, y, width, height, [cells,B] each
  ValueId has_object;           // [cells,1]
  std::vector<ValueId> truth;   // x, y, width, height, [cells,1] each
  ValueId truth_classes;        // [cells,C]
  std::vector<ValueId> corner;  // of the cell, x and y from 0 to 1, [cells,1] each
};

Cells CellsOf(const LayerBuilder& l, const Fields& f) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int64_t area = f.side * f.side;
  const int64_t total = area * (f.classes + 5 * f.boxes);
  l.Check(x.rank() == 2 && x[1] == total, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,", total, "] (", f.classes, " classes and ", f.boxes,
                 " boxes of each of ", area, " cells), found ", x.ToString()));
  const Shape truth = l.shape(1);
  l.Check(truth.Count() == x[0] * area * (5 + f.classes), "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [", x[0], ",", f.side, ",", f.side, ",", 5 + f.classes,
                 "] (object, box, classes), found ", truth.ToString()));
  const int64_t cells = x[0] * area;
  const std::vector<ValueId> parts =
      Columns(b, Constant(l, l.bottom(0)), {area * f.classes, area * f.boxes, area * f.boxes * 4});
  const std::vector<ValueId> wanted =
      Columns(b, Constant(l, b.Reshape(l.bottom(1), Shape{cells, 5 + f.classes})), {1, 1, 1, 1, 1, f.classes});
  const std::vector<ValueId> sides = Columns(b, b.Reshape(parts[2], Shape{cells * f.boxes, 4}));
  const ValueId numbers = b.Add1("filter_index", {b.Full(Shape{f.side}, 1)});
  const auto corner = [&](const Shape& along) {
    const ValueId grid = b.Add1("expand", {b.Reshape(numbers, along)}, {{"shape", Ints{x[0], f.side, f.side}}});
    return b.Pointwise(StrCat("x0/", f.side), {b.Reshape(grid, Shape{cells, 1})});
  };
  Cells c{.classes = b.Reshape(parts[0], Shape{cells, f.classes}),
          .scores = b.Reshape(parts[1], Shape{cells, f.boxes}),
          .box = {},
          .has_object = b.Pointwise("gt(x0,0)", {wanted[0]}),
          .truth = {wanted[1], wanted[2], wanted[3], wanted[4]},
          .truth_classes = wanted[5],
          .corner = {corner(Shape{1, 1, f.side}), corner(Shape{1, f.side, 1})}};
  for (const ValueId side : sides) c.box.push_back(b.Reshape(side, Shape{cells, f.boxes}));
  return c;
}

// Overlap and squared distance of every box and its cell's true box, both from the cell's corner, [cells,B] each.
std::vector<ValueId> Matches(const GraphBuilder& b, const Cells& c, const Fields& f) {
  const auto centre = [&](size_t axis) { return b.Pointwise("x0-x1", {c.truth[axis], c.corner[axis]}); };
  const std::string side = StrCat(f.side);
  const std::string box =
      StrCat("t0=x0/", side, ";t1=x1/", side, f.has_roots ? ";t2=x2*x2;t3=x3*x3;" : ";t2=x2;t3=x3;");
  const std::string overlap =
      box +
      "t4=min(t0+0.5*t2,x4+0.5*x6)-max(t0-0.5*t2,x4-0.5*x6);t5=min(t1+0.5*t3,x5+0.5*x7)-max(t1-0.5*t3,x5-0.5*x7);"
      "t6=select(min(ge(t4,0),ge(t5,0)),t4*t5,0);t6/(t2*t3+x6*x7-t6)";
  const std::string distance = box + "(t0-x4)*(t0-x4)+(t1-x5)*(t1-x5)+(t2-x6)*(t2-x6)+(t3-x7)*(t3-x7)";
  return b.Pointwise(Strings{overlap, distance},
                     {c.box[0], c.box[1], c.box[2], c.box[3], centre(0), centre(1), c.truth[2], c.truth[3]});
}

// The value is the sum of squared differences, the gradient the differences over the batch.
void BuildLoss(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const Fields f = FieldsOf(l, fields);
  const Cells c = CellsOf(l, f);
  const Shape x = l.shape(0);
  const int64_t cells = b.shape(c.scores)[0];
  const std::string object = Number(fields.Number("object_scale", 1));
  const std::string no_object = Number(fields.Number("noobject_scale", 0.5));
  const std::string kind = Number(fields.Number("class_scale", 1));
  const std::string place = Number(fields.Number("coord_scale", 5));
  const std::vector<ValueId> match = Matches(b, c, f);
  const auto first = [&](ValueId value) {
    return b.Add1("top_k_mask", {value}, {{"axis", int64_t{1}}, {"k", int64_t{1}}});
  };
  // Of a cell with an object the box of the largest overlap learns it; without any overlap the nearest.
  const ValueId overlapping = b.Reshape(b.ReduceSum(b.Pointwise("gt(x0,0)", {match[0]}), {1}), Shape{cells, 1});
  const ValueId own = b.Pointwise("select(x3,select(x2,x0,x1),0)",
                                  {first(match[0]), first(b.Pointwise("-x0", {match[1]})), overlapping, c.has_object});
  const ValueId classes =
      b.Pointwise(StrCat("select(x2,", kind, "*(x0-x1),0)"), {c.classes, c.truth_classes, c.has_object});
  const ValueId scores =
      b.Pointwise(StrCat("select(x2,", object, "*(x0-x1),", no_object, "*x0)"), {c.scores, match[0], own});
  std::vector<ValueId> sides;
  for (size_t i = 0; i < 4; ++i) {
    const std::string target = i >= 2 && f.has_roots ? "sqrt(x1)" : "x1";
    const ValueId side = b.Pointwise(StrCat("select(x2,", place, "*(x0-", target, "),0)"), {c.box[i], c.truth[i], own});
    sides.push_back(b.Reshape(side, Shape{cells * f.boxes, 1}));
  }
  const auto item = [&](ValueId value) { return b.Reshape(value, Shape{x[0], b.shape(value).Count() / x[0]}); };
  const ValueId difference = Beside(b, {item(classes), item(scores), item(Beside(b, sides))});
  const ValueId loss = SumOf(l, "x0*x0", {difference});
  const ValueId dx = b.Pointwise(StrCat("x0/", x[0]), {difference});
  l.SetTop(0, b.Reshape(WithGradients(l, loss, {{l.bottom(0), dx}}), Shape{1}));
}

void BuildData(LayerBuilder& l, const PythonFields& fields) {
  const Fields f = FieldsOf(l, fields);
  const Doubles size = fields.Numbers("im_shape", {448, 448});
  const auto is_size = [](double v) {
    return v >= 1 && v <= 1 << 20 && v == static_cast<double>(static_cast<int64_t>(v));
  };
  l.Check(size.size() == 2 && is_size(size[0]) && is_size(size[1]), "python_param.param_str",
          "python_param.param_str: 'im_shape' must be a height and a width");
  const int64_t batch = fields.Count("batch_size", 1, 1);
  const Shape image{batch, 3, static_cast<int64_t>(size[0]), static_cast<int64_t>(size[1])};
  l.AddData({{DType::kFloat32, image, {}}, {DType::kFloat32, Shape{batch, f.side, f.side, 5 + f.classes}, {}}});
}

}  // namespace

std::vector<PythonLayerDef> YoloPythonLayers() {
  std::vector<PythonLayerDef> layers;
  for (const std::string package : {"", "my_layers."}) {
    layers.push_back({.module = package + "voc_data_layer",
                      .layer = "VOCLocDataLayerSyncSync",
                      .doc = "pycaffe-yolo: fed by the caller: data [batch_size,3,im_shape] and label "
                             "[batch_size,side,side,5+classes] (object, x, y, width, height, classes).",
                      .min_tops = 2,
                      .max_tops = 2,
                      .build = BuildData});
    layers.push_back({.module = package + "yolo_loss_layer",
                      .layer = "YoloLossLayer",
                      .doc =
                          "pycaffe-yolo: ([N,S*S*(classes+5*num)]: classes, scores, then boxes of every cell; label) "
                          "-> the sum of the squared differences from what a cell's best box and classes are to be, "
                          "times their scales; the gradient is the differences over N. Give it a loss_weight.",
                      .min_bottoms = 2,
                      .max_bottoms = 2,
                      .build = BuildLoss});
  }
  return layers;
}

}  // namespace moka
