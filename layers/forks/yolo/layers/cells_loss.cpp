// YoloV2Loss and YoloV3Loss (Synopsys): YOLO's losses of labels that say for each cell of the map whether an object has
// its centre there (layers/forks/yolo/ops/cells_loss.cpp).
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// Side of the map, which must be that of the field, as must the labels.
int64_t CheckSide(const LayerBuilder& l, const std::string& field, int64_t side, int64_t anchors, int64_t classes) {
  l.Check(classes >= 1, field + ".num_classes", StrCat("num_classes must be at least 1, found ", classes));
  l.Check(anchors >= 1, field + ".num_object", StrCat("num_object must be at least 1, found ", anchors));
  CheckMap(l, 0, anchors, 5 + classes);
  const Shape x = l.shape(0);
  l.Check(x[2] == side && x[3] == side, field + ".side",
          StrCat("side is ", side, " but the bottom ", x.ToString(), " has maps of ", x[2], " x ", x[3]));
  l.Check((Size(x[0]) * side * side * 7) == Size(l.shape(1).Count()), "bottom[1]",
          StrCat("labels must be [", x[0], ",", (Size(side) * side * 7).value(), "], 7 numbers a cell, found ",
                 l.shape(1).ToString()));
  return side;
}

void BuildSecond(LayerBuilder& l) {
  const YoloV2LossParameter& p = l.param().yolo_v2_loss_param();
  const std::string field = "yolo_v2_loss_param";
  const auto number = [&](const char* name, float value) { return Finite(l, StrCat(field, ".", name), value); };
  const int64_t side = CheckSide(l, field, p.side(), p.num_object(), p.num_classes());
  Doubles anchors = AnchorsOf(l, field + ".anchors", p.anchors(), p.num_object());
  for (double& size : anchors) size /= static_cast<double>(side);
  Ints mask;
  for (int64_t i = 0; i < p.num_object(); ++i) mask.push_back(i);
  const ValueId seen = l.AddKept("seen", {});
  const std::string more = StrCat("x0+", l.shape(0)[0]);
  l.AssignKept(seen, l.b().Pointwise(StrCat("select(lt(x0,12800),", more, ",x0)"), {seen}));
  const std::vector<ValueId> y =
      l.b().Add("yolo_cells_loss", {l.bottom(0), l.bottom(1), l.b().Add1("stop_gradient", {seen})},
                {{"version", int64_t{2}},
                 {"classes", int64_t{p.num_classes()}},
                 {"anchors", anchors},
                 {"mask", mask},
                 {"thresh", number("thresh", p.thresh())},
                 {"box_scale", number("box_scale", p.box_scale())},
                 {"class_scale", number("class_scale", p.class_scale())},
                 {"object_scale", number("object_scale", p.object_scale())},
                 {"noobject_scale", number("noobject_scale", p.noobject_scale())},
                 {"rescore", p.rescore()}});
  l.NoteUnequal("tells its loss over the objects of a batch, which is a part of it on each rank");
  SetSlopedLoss(l, l.bottom(0), y[0], y[1]);
}

// Pixels of the image's sides. Of darknet's three maps a cell has as many as their place says, whatever the field does.
int64_t PixelsOf(const LayerBuilder& l, const char* field, int64_t given) {
  const YoloV3LossParameter& p = l.param().yolo_v3_loss_param();
  const int64_t first = p.mask(0);
  const int64_t cell = first == 6 ? 32 : first == 3 ? 16 : first == 0 ? 8 : 0;
  l.Check(cell > 0 || given >= 1, field, StrCat("it must be at least 1, found ", given));
  return cell > 0 ? (Size(p.side()) * cell).value() : given;
}

void BuildThird(LayerBuilder& l) {
  const YoloV3LossParameter& p = l.param().yolo_v3_loss_param();
  const std::string field = "yolo_v3_loss_param";
  CheckSide(l, field, p.side(), p.num_object(), p.num_classes());
  Doubles anchors = AnchorsOf(l, field + ".anchors", p.anchors(), p.total_object());
  const Ints mask(p.mask().begin(), p.mask().end());
  l.Check(p.mask_size() == p.num_object(), field + ".mask",
          StrCat("mask must name the ", p.num_object(), " anchors of this map (num_object), found ", mask.size()));
  for (const int64_t anchor : mask) {
    l.Check(anchor >= 0 && anchor < p.total_object(), field + ".mask",
            StrCat("mask ", anchor, " is none of the ", p.total_object(), " anchors"));
  }
  const auto width = static_cast<double>(PixelsOf(l, "yolo_v3_loss_param.net_w", p.net_w()));
  const auto height = static_cast<double>(PixelsOf(l, "yolo_v3_loss_param.net_h", p.net_h()));
  for (size_t i = 0; i < anchors.size(); ++i) anchors[i] /= i % 2 == 0 ? width : height;
  const std::vector<ValueId> y = l.b().Add("yolo_cells_loss", l.bottoms(),
                                           {{"version", int64_t{3}},
                                            {"classes", int64_t{p.num_classes()}},
                                            {"anchors", anchors},
                                            {"mask", mask},
                                            {"thresh", Finite(l, field + ".ignore_thresh", p.ignore_thresh())},
                                            {"truth_thresh", Finite(l, field + ".truth_thresh", p.truth_thresh())}});
  l.NoteUnequal("tells its loss over the objects of a batch, which is a part of it on each rank");
  SetSlopedLoss(l, l.bottom(0), y[0], y[1]);
}

constexpr const char* kLabels =
    "\n\nThe label of an item is four planes of S x S: difficult, object (not 0: an object has its centre in the "
    "cell), class (-1: none), and x, y, w, h of its box, a cell after the other. The class of an object is that of the "
    "cell in which its box's centre is; an object with its centre outside the image counts for nothing.";

LayerDef Row(std::string type, std::string doc, void (*build)(LayerBuilder&), LayerPage page) {
  page.formula += kLabels;
  return {.type = std::move(type),
          .doc = std::move(doc),
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = build,
          .page = std::move(page)};
}

}  // namespace

LayerDef YoloV2LossLayer() {
  return Row(
      "YoloV2Loss",
      "YOLO v2's loss on a map [N, num_object*(5+num_classes), side, side] with `anchors` in cells, and labels "
      "[N, 7 side^2] by cells, as AnnotatedData with caffe_yolo gives them. The top is the weighted squares of what is "
      "learnt, each kind over its number; the gradient is darknet's rule divided by N, times the loss weight, not the "
      "derivative of the top.",
      BuildSecond,
      {.params = {"yolo_v2_loss_param"},
       .formula =
           "With s the sigmoid and q the softmax of the classes, an anchor (a, b) in cell (row, column) of S x S has "
           "the box with centre `((column + s(x)) / S, (row + s(y)) / S)`, sides `(exp(w) a / S, exp(h) b / S)` and "
           "objectness p = s(o). The rule g: for every anchor's o `noobject_scale * p * p (1-p)`, or 0 if its box "
           "overlaps an object by more than thresh. Each object then sets g for the anchor of its cell whose size fits "
           "its own best: for x, y, w, h `-k r`, r the distance to the goal of s(x), s(y), w, h (times `s (1-s)` for x "
           "and y; goals of w and h are log(object / anchor)) and `k = box_scale * (2 - area)`; for o `-object_scale * "
           "u * p (1-p)`, `u = overlap - p` with rescore (default), 1 - p without; for the classes `-class_scale * (t "
           "- q)`, t one-hot. While the layer has seen fewer than 12800 images, all boxes are drawn to the middle of "
           "their cell and their anchor's size before, with k = 0.01.\n\nThe top is the scalar `(sum of k r^2 + "
           "object_scale u^2 + class_scale (t - q)^2) / K + sum of noobject_scale p^2 / (A - K)` for K objects of A "
           "anchors.",
       .gradient = "`dx = loss_weight * g / N`: the rule itself, not the derivative of the top. None for the labels.",
       .source = "YOLO v2 (Redmon, Farhadi, arXiv 1612.08242), yolo_v2_loss_layer of Synopsys's Caffe. Divisors are at "
                 "least 1; there 0 objects give no number. The layer does not change its bottom, as it does there. The "
                 "images seen are kept with the checkpoint. constraint is not used, as there.",
       .example =
           R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 14 dim: 3 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 63 } } }
layer {
  name: "loss"
  type: "YoloV2Loss"
  bottom: "map"
  bottom: "label"
  top: "loss"
  yolo_v2_loss_param { side: 3 num_classes: 2 num_object: 2 anchors: 1 anchors: 1.5 anchors: 2.5 anchors: 1 }
})"});
}

LayerDef YoloV3LossLayer() {
  return Row(
      "YoloV3Loss",
      "YOLO v3's loss on one map [N, num_object*(5+num_classes), side, side]: `anchors` are those of all maps in "
      "pixels, mask names this map's; labels [N, 7 side^2] by cells, as AnnotatedData with caffe_yolo gives them. The "
      "top is the squares of what is learnt, each kind over its number; the gradient is darknet's rule divided by N, "
      "times the loss weight, not the derivative of the top.",
      BuildThird,
      {.params = {"yolo_v3_loss_param"},
       .formula =
           "With s the sigmoid, an anchor (a, b) pixels that `mask` names, in cell (row, column) of S x S, has the box "
           "with centre `((column + s(x)) / S, (row + s(y)) / S)`, sides `(exp(w) a / W, exp(h) b / H)`, objectness p "
           "= s(o) and class scores q = s(class); W and H are 32 S, 16 S and 8 S for a mask that begins with 6, 3 and "
           "0, else net_w and net_h. The rule g: for every anchor's o `p * p (1-p)`, or 0 if its box overlaps an "
           "object by more than ignore_thresh; by more than truth_thresh: it learns that object as below, its o too. "
           "Each object then sets g in its cell for the anchor of all `anchors` that fits its size best, if this map "
           "has it: for x, y, w, h `-k r`, r the distance to the goal of s(x), s(y), w, h (times `s (1-s)` for x and "
           "y; goals of w and h are log(object / anchor)) and `k = 2 - area`; for o `-(1-p) * p (1-p)`; for the "
           "classes `-(t - q)`, t one-hot, or, where the anchor has learnt an object before, for the object's class "
           "alone.\n\nThe top is the scalar `(sum of k r^2 + (1-p)^2 + (t - q)^2) / K + sum of p^2 over all anchors / "
           "(A - K)` for K objects of this map's A anchors.",
       .gradient = "`dx = loss_weight * g / N`: the rule itself, not the derivative of the top. None for the labels.",
       .source = "YOLO v3 (Redmon, Farhadi, arXiv 1804.02767), yolo_v3_loss_layer of Synopsys's Caffe. Divisors are at "
                 "least 1; there 0 objects give no number. The layer does not change its bottom, as it does there.",
       .example =
           R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 14 dim: 3 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 63 } } }
layer {
  name: "loss"
  type: "YoloV3Loss"
  bottom: "map"
  bottom: "label"
  top: "loss"
  yolo_v3_loss_param {
    side: 3 num_classes: 2 num_object: 2 total_object: 3
    anchors: 10 anchors: 14 anchors: 23 anchors: 27 anchors: 37 anchors: 58
    mask: 1 mask: 2 net_w: 96 net_h: 96
  }
})"});
}

}  // namespace moka
