// FrcnnOutput (Cascade R-CNN): a detector's boxes, thinned class by class. Saving them to files is not part of it. The
// original's top has a row a detection and one for the image; here it has the most rows there can be, what is left is
// -1.
#include "core/log.h"
#include "layers/forks/cascade/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildFrcnnOutput(LayerBuilder& l) {
  const FrcnnOutputParameter& p = l.param().frcnn_output_param();
  if (!p.save_output_param().output_directory().empty()) {
    LogWarning(StrCat("layer \"", l.param().name(), "\": detections are not saved; save_output_param is not used"));
  }
  Attributes attributes{{"threshold", Finite(l, "frcnn_output_param.conf_thr", p.conf_thr())},
                        {"most", int64_t{p.max_det_num()}},
                        {"class_aware", l.param().bbox_reg_param().cls_aware()}};
  SetSuppression(l, "frcnn_output_param", p.iou_thr(), p.nms_type(), attributes);
  SetOffsets(l, attributes);
  l.Check(l.shape(3).rank() >= 1 && l.shape(3)[0] == 1, "bottom[3]",
          StrCat("there must be one image, found sizes ", l.shape(3).ToString()));
  l.SetTop(0, FourAxes(l.b(), l.b().Add1("class_detections", l.bottoms(), attributes)));
}

}  // namespace

LayerDef FrcnnOutputLayer() {
  return {
      .type = "FrcnnOutput",
      .doc =
          "The detections of one image: class probabilities [R,K] (background first), offsets [R,4K] (or [R,8] with "
          "bbox_reg_param.cls_aware false, the second four for all classes), regions [R,5 or 6] (image 0, x1, y1, x2, "
          "y2; others are padding) and the image's height and width [1,2]. Top [D+1,7,1,1]: (0, -1, ..) for the image, "
          "then (image, x1, y1, x2, y2, class, score) for at most max_det_num detections (0: all); rows that are left "
          "are -1.",
      .min_bottoms = 4,
      .max_bottoms = 4,
      .build = BuildFrcnnOutput,
      .page = {
          .params = {"frcnn_output_param", "bbox_reg_param"},
          .formula =
              "For each class but the background the regions with a probability of at least conf_thr are moved as in "
              "DecodeBBox and cut to `[0, width]` and `[0, height]`; best first a box stays unless its overlap with "
              "one "
              "that stayed is above iou_thr (nms_type as in BoxOutput, sides `x2 - x1 + 1`). Of all classes' boxes the "
              "max_det_num best stay. Rows are in order of the class, then of falling score. D is the smaller of "
              "max_det_num and R (K - 1).",
          .gradient = "None: no bottom gets one.",
          .source =
              "Cai and Vasconcelos, \"Cascade R-CNN\", 2018, arXiv 1712.00726; cascade-rcnn's frcnn_output_layer, "
              "whose top has a row a detection and which can save them (save_output_param; not here).",
          .example = R"(layer { name: "prob" type: "Input" top: "prob" input_param { shape { dim: 6 dim: 3 } } }
layer { name: "offsets" type: "Input" top: "offsets" input_param { shape { dim: 6 dim: 12 } } }
layer { name: "rois" type: "Input" top: "rois" input_param { shape { dim: 6 dim: 5 } } }
layer { name: "size" type: "Input" top: "size" input_param { shape { dim: 1 dim: 2 } } }
layer {
  name: "detections"
  type: "FrcnnOutput"
  bottom: "prob"
  bottom: "offsets"
  bottom: "rois"
  bottom: "size"
  top: "detections"
  frcnn_output_param { conf_thr: 0.05 iou_thr: 0.5 max_det_num: 4 }
})"}};
}

}  // namespace moka
