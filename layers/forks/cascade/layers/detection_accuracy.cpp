// DetectionAccuracy (MS-CNN) and DetectionGroupAccuracy (Cascade R-CNN): what share of a detection branch's classes is
// right, and how far its boxes overlap their objects.
#include "layers/forks/cascade/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void SetAccuracies(LayerBuilder& l, const std::vector<ValueId>& inputs, const Attributes& attributes) {
  const std::vector<ValueId> tops = l.b().Add("branch_accuracy", inputs, attributes);
  l.SetTop(0, l.b().Reshape(tops[0], Shape{1, 1, 1, 2}));
  if (l.top_count() > 1) l.SetTop(1, l.b().Reshape(tops[1], Shape{1, 1, 1, 1}));
}

void BuildDetectionAccuracy(LayerBuilder& l) {
  const std::string message = "detection_accuracy_param";
  const DetectionAccuracyParameter& p = l.param().detection_accuracy_param();
  const Shape x = l.shape(0);
  const int64_t classes = p.cls_num();
  l.Check(p.coord_num() == 4, message + ".coord_num", StrCat(message, ".coord_num must be 4, found ", p.coord_num()));
  l.Check(classes >= 2 && x.rank() == 4 && x[1] == classes + 4, message + ".cls_num",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N,cls_num+4,H,W] with at least 2 classes, found ",
                 x.ToString(), " for cls_num ", classes));
  l.Check(p.top_k() >= 1 && p.top_k() <= classes, message + ".top_k",
          StrCat(message, ".top_k must be from 1 to the ", classes, " classes, found ", p.top_k()));
  Attributes attributes{{"heights", Doubles{SideOf(l, message + ".field_h", p.field_h())}},
                        {"widths", Doubles{SideOf(l, message + ".field_w", p.field_w())}},
                        {"stride", SideOf(l, message + ".downsample_rate", p.downsample_rate())},
                        {"bg_threshold", Finite(l, message + ".bg_threshold", p.bg_threshold())},
                        {"top_k", int64_t{p.top_k()}},
                        {"objectness", p.objectness()}};
  SetBounds(l, message, p.field_xyr(), p.field_whr(), attributes);
  SetOffsets(l, attributes);
  SetIgnoredLabel(l, attributes);
  const std::vector<ValueId> parts =
      l.b().Add("slice", {l.bottom(0)}, {{"axis", int64_t{1}}, {"sizes", Ints{classes, 4}}});
  SetAccuracies(l, {parts[0], parts[1], l.bottom(1)}, attributes);
}

void BuildAccuracyOfGroup(LayerBuilder& l) {
  const std::string message = "detection_group_accuracy_param";
  const DetectionGroupAccuracyParameter& p = l.param().detection_group_accuracy_param();
  l.Check(l.shape(0).rank() == 4 && l.shape(0)[1] == p.cls_num(), message + ".cls_num",
          StrCat("bottom \"", l.param().bottom(0), "\" must be [N*A,cls_num,H,W], found ", l.shape(0).ToString(),
                 " for cls_num ", p.cls_num()));
  Attributes attributes{{"heights", SidesOf(l, message + ".field_h", p.field_h())},
                        {"widths", SidesOf(l, message + ".field_w", p.field_w())},
                        {"stride", SideOf(l, message + ".stride", p.stride())},
                        {"bg_threshold", Finite(l, message + ".bg_threshold", p.bg_threshold())},
                        {"objectness", p.objectness()},
                        {"pixels", true}};
  SetBounds(l, message, p.field_xyr(), p.field_whr(), attributes);
  SetOffsets(l, attributes);
  SetIgnoredLabel(l, attributes);
  SetAccuracies(l, l.bottoms(), attributes);
}

}  // namespace

LayerDef DetectionAccuracyLayer() {
  return {.type = "DetectionAccuracy",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = BuildDetectionAccuracy,
          .params = {"detection_accuracy_param", "bbox_reg_param", "loss_param"}};
}

LayerDef DetectionGroupAccuracyLayer() {
  return {.type = "DetectionGroupAccuracy",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .max_tops = 2,
          .build = BuildAccuracyOfGroup,
          .params = {"detection_group_accuracy_param", "bbox_reg_param", "loss_param"}};
}

}  // namespace moka
