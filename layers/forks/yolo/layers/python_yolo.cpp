// pycaffe-yolo's Python layers (Zehaos): YOLO's loss of 2016 (Redmon et al., arXiv 1506.02640) and its loader's shapes.
#include "core/text.h"
#include "layers/forks/rcnn/layers/region_values.h"
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

// The values that the loss reads, a row a cell of the batch.
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
    return Computed(b, Term::Of(b.Reshape(grid, Shape{cells, 1})) / f.side);
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
  const auto center = [&](size_t axis) { return b.Pointwise("x0-x1", {c.truth[axis], c.corner[axis]}); };
  const std::vector<ValueId> inputs{c.box[0],  c.box[1],  c.box[2],   c.box[3],
                                    center(0), center(1), c.truth[2], c.truth[3]};
  const auto input = [&](size_t i) { return Term::Of(inputs[i]); };
  // Two ways of each box: the centre along an axis, and the side.
  const Term place[] = {input(0) / f.side, input(1) / f.side};
  const Term size[] = {f.has_roots ? Square(input(2)) : input(2), f.has_roots ? Square(input(3)) : input(3)};
  const Term wanted[] = {input(4), input(5)};
  const Term wanted_size[] = {input(6), input(7)};
  const auto common = [&](size_t i) {
    return Min(place[i] + 0.5 * size[i], wanted[i] + 0.5 * wanted_size[i]) -
           Max(place[i] - 0.5 * size[i], wanted[i] - 0.5 * wanted_size[i]);
  };
  const Term width = common(0);
  const Term height = common(1);
  const Term both = Select(Min(width >= 0, height >= 0), width * height, 0);
  const Term overlap = both / (size[0] * size[1] + wanted_size[0] * wanted_size[1] - both);
  const Term distance = Square(place[0] - wanted[0]) + Square(place[1] - wanted[1]) + Square(size[0] - wanted_size[0]) +
                        Square(size[1] - wanted_size[1]);
  return b.Pointwise(std::vector<Term>{overlap, distance}, inputs);
}

// The value is the sum of squared differences, the gradient the differences over the batch.
void BuildLoss(LayerBuilder& l, const PythonFields& fields) {
  const GraphBuilder& b = l.b();
  const Fields f = FieldsOf(l, fields);
  const Cells c = CellsOf(l, f);
  const Shape x = l.shape(0);
  const int64_t cells = b.shape(c.scores)[0];
  const Term object = Decimal(fields.Number("object_scale", 1));
  const Term no_object = Decimal(fields.Number("noobject_scale", 0.5));
  const Term kind = Decimal(fields.Number("class_scale", 1));
  const Term place = Decimal(fields.Number("coord_scale", 5));
  const std::vector<ValueId> match = Matches(b, c, f);
  const auto first = [&](ValueId value) {
    return b.Add1("top_k_mask", {value}, {{"axis", int64_t{1}}, {"k", int64_t{1}}});
  };
  // In a cell with an object the box of the largest overlap learns it; if no box overlaps it, the nearest does.
  const ValueId overlapping = b.Reshape(b.ReduceSum(b.Pointwise("gt(x0,0)", {match[0]}), {1}), Shape{cells, 1});
  const ValueId own = b.Pointwise("select(x3,select(x2,x0,x1),0)",
                                  {first(match[0]), first(b.Pointwise("-x0", {match[1]})), overlapping, c.has_object});
  // The difference times a scale where the condition holds.
  const auto where = [&](ValueId condition, const Term& scale, ValueId found, const Term& wanted, const Term& other) {
    return Select(Term::Of(condition), scale * (Term::Of(found) - wanted), other);
  };
  const ValueId classes =
      Computed(b, where(c.has_object, kind, c.classes, Term::Of(c.truth_classes), 0), {c.classes, c.truth_classes});
  const ValueId scores = Computed(b, where(own, object, c.scores, Term::Of(match[0]), no_object * Term::Of(c.scores)),
                                  {c.scores, match[0]});
  std::vector<ValueId> sides;
  for (size_t i = 0; i < 4; ++i) {
    const Term truth = Term::Of(c.truth[i]);
    const Term target = i >= 2 && f.has_roots ? Sqrt(truth) : truth;
    const ValueId side = Computed(b, where(own, place, c.box[i], target, 0), {c.box[i], c.truth[i]});
    sides.push_back(b.Reshape(side, Shape{cells * f.boxes, 1}));
  }
  const auto item = [&](ValueId value) { return b.Reshape(value, Shape{x[0], b.shape(value).Count() / x[0]}); };
  const ValueId difference = Beside(b, {item(classes), item(scores), item(Beside(b, sides))});
  const ValueId loss = SumOf(l, "x0*x0", {difference});
  const ValueId dx = Computed(b, Term::Of(difference) / x[0]);
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
