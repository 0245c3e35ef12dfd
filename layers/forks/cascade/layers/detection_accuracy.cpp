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

constexpr const char* kFormula =
    "Positions count whose class is not ignore_label of loss_param, and those of class 0 only with an overlap below "
    "bg_threshold. Top 0 is [1,1,1,2]: the share of them whose class is right, and that share of the positions of a "
    "class above 0. Top 1 is [1,1,1,1]: over those, the mean intersection over union of the box the offsets give (as "
    "in the layer that gives proposals, before it is cut) and the object's box. Each is -1 where nothing counts. "
    "objectness makes every object class 1.";

}  // namespace

LayerDef DetectionAccuracyLayer() {
  return {
      .type = "DetectionAccuracy",
      .doc =
          "The accuracy of one of MS-CNN's detection branches: bottom 0 [N,cls_num+4,H,W] has scores and offsets, "
          "bottom "
          "1 [N,6,H,W] the labels of ImageGtData (class, centre, sides, overlap). Tops: the share of right classes, of "
          "all and of the objects' positions, [1,1,1,2], and optionally the mean overlap of the objects' boxes "
          "[1,1,1,1]; -1 where there are none.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .build = BuildDetectionAccuracy,
      .page = {
          .params = {"detection_accuracy_param", "bbox_reg_param", "loss_param"},
          .formula = StrCat(kFormula, " A class is right if it is among the top_k that score best."),
          .gradient = "None: no bottom gets one.",
          .source = "Cai et al., \"A Unified Multi-scale Deep Convolutional Neural Network for Fast Object "
                    "Detection\", 2016, arXiv 1607.07155; mscnn's detection_accuracy_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 7 dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 1 dim: 6 dim: 4 dim: 5 } } }
layer {
  name: "accuracy"
  type: "DetectionAccuracy"
  bottom: "x"
  bottom: "label"
  top: "accuracy"
  top: "overlap"
  detection_accuracy_param { cls_num: 3 field_h: 40 field_w: 40 downsample_rate: 8 }
})"}};
}

LayerDef DetectionGroupAccuracyLayer() {
  return {
      .type = "DetectionGroupAccuracy",
      .doc =
          "The accuracy of Cascade R-CNN's proposal network: bottoms are scores [N*A,cls_num,H,W], offsets [N*A,4,H,W] "
          "and labels [N*A,6,H,W] of DetectionData (class, centre, sides, overlap) for the A anchors of field_w x "
          "field_h pixels. Tops: the share of right classes, of all and of the objects' positions, [1,1,1,2], and "
          "optionally the mean overlap of the objects' boxes [1,1,1,1]; -1 where there are none.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .max_tops = 2,
      .build = BuildAccuracyOfGroup,
      .page = {
          .params = {"detection_group_accuracy_param", "bbox_reg_param", "loss_param"},
          .formula = kFormula,
          .gradient = "None: no bottom gets one.",
          .source = "Cai and Vasconcelos, \"Cascade R-CNN\", 2018, arXiv 1712.00726; cascade-rcnn's "
                    "detection_group_accuracy_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 2 dim: 4 dim: 5 } } }
layer { name: "offsets" type: "Input" top: "offsets" input_param { shape { dim: 2 dim: 4 dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 6 dim: 4 dim: 5 } } }
layer {
  name: "accuracy"
  type: "DetectionGroupAccuracy"
  bottom: "x"
  bottom: "offsets"
  bottom: "label"
  top: "accuracy"
  top: "overlap"
  detection_group_accuracy_param { cls_num: 2 field_h: 40 field_h: 24 field_w: 40 field_w: 48 stride: 8 }
})"}};
}

}  // namespace moka
