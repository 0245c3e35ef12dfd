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
  return {.type = "FrcnnOutput",
          .min_bottoms = 4,
          .max_bottoms = 4,
          .build = BuildFrcnnOutput,
          .params = {"frcnn_output_param", "bbox_reg_param"}};
}

}  // namespace moka
