// Yolov3: YOLO v3's loss on one map, as eric612's port has it (layers/forks/yolo/ops/yolov3_loss.cpp).
#include "core/text.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

std::string OverlapName(Yolov3Parameter::IOU_LOSS kind) {
  switch (kind) {
    case Yolov3Parameter::IOU: return "iou";
    case Yolov3Parameter::GIOU: return "giou";
    case Yolov3Parameter::DIOU: return "diou";
    case Yolov3Parameter::CIOU: return "ciou";
    case Yolov3Parameter::MSE: break;
  }
  return "mse";
}

Ints MaskOf(const LayerBuilder& l, size_t anchors) {
  const Yolov3Parameter& p = l.param().yolov3_param();
  const Ints mask(p.mask().begin(), p.mask().end());
  l.Check(mask.size() == p.num(), "yolov3_param.mask",
          StrCat("mask must name the ", p.num(), " anchors of this map (num), found ", mask.size()));
  for (const int64_t anchor : mask) {
    l.Check(anchor < static_cast<int64_t>(anchors), "yolov3_param.mask",
            StrCat("mask ", anchor, " is none of the ", anchors, " anchors of biases"));
  }
  return mask;
}

void BuildYolov3(LayerBuilder& l) {
  const Yolov3Parameter& p = l.param().yolov3_param();
  const auto number = [&](const char* field, float value) { return Finite(l, StrCat("yolov3_param.", field), value); };
  l.Check(p.num_class() >= 1, "yolov3_param.num_class", "num_class must be at least 1");
  l.Check(p.anchors_scale() >= 1, "yolov3_param.anchors_scale", "anchors_scale must be at least 1");
  const Doubles anchors = AnchorsOf(l, "yolov3_param.biases", p.biases(), -1);
  const Ints mask = MaskOf(l, anchors.size() / 2);
  CheckMap(l, 0, p.num(), int64_t{5} + p.num_class());
  l.Check(
      l.shape(1).Count() % (5 * l.shape(0)[0]) == 0, "bottom[1]",
      StrCat("labels are lists of 5 values for each of the ", l.shape(0)[0], " images, found ", l.shape(1).ToString()));
  const double max_delta = number("max_delta", p.max_delta());
  l.Check(max_delta >= 0, "yolov3_param.max_delta", StrCat("max_delta must not be negative, found ", max_delta));
  const std::vector<ValueId> y = l.b().Add("yolov3_loss", l.bottoms(),
                                           {{"classes", int64_t{p.num_class()}},
                                            {"anchors", anchors},
                                            {"mask", mask},
                                            {"cell", int64_t{p.anchors_scale()}},
                                            {"overlap", OverlapName(p.iou_loss())},
                                            {"object_scale", number("object_scale", p.object_scale())},
                                            {"class_scale", number("class_scale", p.class_scale())},
                                            {"coord_scale", number("coord_scale", p.coord_scale())},
                                            {"thresh", number("thresh", p.thresh())},
                                            {"iou_thresh", number("iou_thresh", p.iou_thresh())},
                                            {"overlap_scale", number("iou_normalizer", p.iou_normalizer())},
                                            {"max_delta", max_delta},
                                            {"accumulate", p.accumulate()},
                                            {"smoothing", number("label_smooth_eps", p.label_smooth_eps())},
                                            {"focal", p.use_focal_loss()},
                                            {"logic_gradient", p.use_logic_gradient()}});
  if (p.iou_loss() != Yolov3Parameter::MSE)
    l.NoteUnequal("tells the mean overlap of the objects of a batch, which is a part of it on each rank");
  SetSlopedLoss(l, l.bottom(0), y[0], y[1]);
}

}  // namespace

LayerDef Yolov3Layer() {
  return {
      .type = "Yolov3",
      .doc =
          "YOLO v3's loss on one map [N, num*(5+num_class), H, W]: biases are the anchors of all maps in pixels, "
          "mask names this map's, anchors_scale is a cell's side in pixels. Labels: lists [N, 5 T] of (label from "
          "0, x, y, w, h), w 0 ends one. The top is the sum of squares of the rule by which the map is trained, "
          "divided by N; the gradient is that rule divided by N, times the loss weight, not the derivative of the "
          "top. iou_loss chooses the boxes' part: MSE (times coord_scale (2 - w h)) or the slope of IOU, GIOU, "
          "DIOU, CIOU (times iou_normalizer, bounded by max_delta).",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = BuildYolov3,
      .page = {
          .params = {"yolov3_param"},
          .formula = "With s the sigmoid, an anchor (a, b) pixels that `mask` names, in cell (row, column), has "
                     "the box with centre `((column + s(x)) / W, (row + s(y)) / H)`, sides `(exp(w) a / (W S), "
                     "exp(h) b / (H S))` for S = anchors_scale, objectness p = s(o) and class scores q = "
                     "s(class). The rule g: p for every anchor's o, or 0 if its box overlaps an object by more "
                     "than thresh. In its cell each object sets g for the anchor of all `biases` that fits its "
                     "size best, if this map has it, and for this map's further anchors that fit better than "
                     "iou_thresh (default 0.5; 1: none).\n\nThere, for o `-(1 - p)`, times object_scale under "
                     "use_logic_gradient; for the classes `-class_scale * (t - q)`, t = 1 - e/2 at the label and "
                     "e/2 elsewhere for e = label_smooth_eps (default 0.1; use_focal_loss: one-hot t and a focal "
                     "factor), a second object of the anchor changing its own class alone; for x, y, w, h under "
                     "MSE `-coord_scale * (2 - area) * (goal - v)` with v = s(x), s(y), w, h and the goals of w "
                     "and h log(object / anchor), and otherwise minus iou_normalizer times the slope of the "
                     "overlap, bounded to max_delta (accumulate: slopes of several objects add up).\n\nThe top is "
                     "the scalar `sum g^2 / N`; with an overlap loss `(sum of g^2 over o and classes + "
                     "iou_normalizer * mean(1 - overlap)) / N`, the mean over the anchors set by objects.",
          .gradient = "`dx = loss_weight * g / N`, times `s (1 - s)` for all but w and h under use_logic_gradient: "
                      "the rule itself, not the derivative of the top. None for the labels.",
          .source = "YOLO v3 (Redmon, Farhadi, arXiv 1804.02767) as eric612's Caffe port has it; GIoU arXiv "
                    "1902.09630, DIoU and CIoU arXiv 1911.08287. As in the port the best anchor takes part in "
                    "the further ones too unless its number among all anchors equals its place in this map. side "
                    "and noobject_scale are not used.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 14 dim: 4 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 10 } } }
layer {
  name: "loss"
  type: "Yolov3"
  bottom: "map"
  bottom: "label"
  top: "loss"
  yolov3_param {
    num_class: 2
    num: 2
    anchors_scale: 16
    biases: 10 biases: 14 biases: 23 biases: 27 biases: 37 biases: 58
    mask: 0 mask: 2
    iou_loss: GIOU
  }
})"}};
}

}  // namespace moka
