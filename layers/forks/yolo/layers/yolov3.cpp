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
  return {.type = "Yolov3",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = BuildYolov3,
          .params = {"yolov3_param"}};
}

}  // namespace moka
