// CenterGridOutput: faces of maps that each look for faces of one scale (yuqj1991's). The top grows with what was found
// in the original; here it has the largest size.
#include <cfloat>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildCenterGridOutput(LayerBuilder& l) {
  const DetectionOutputParameter& p = l.param().detection_output_param();
  const bool is_softmax = p.class_type() == DetectionOutputParameter::SOFTMAX;
  const int classes = is_softmax ? 2 : 1;
  l.Check(p.num_classes() == static_cast<uint32_t>(classes), "detection_output_param.num_classes",
          StrCat("num_classes must be ", classes, is_softmax ? " (SOFTMAX: background and face)" : " (SIGMOID)",
                 ", found ", p.num_classes()));
  l.Check(!p.has_lm() || is_softmax, "detection_output_param.has_lm", "landmarks go with class_type: SOFTMAX");
  l.Check(p.bias_scale_size() == l.bottom_count(), "detection_output_param.bias_scale",
          StrCat("bias_scale must be given once a bottom, ", l.bottom_count(), " times, found ", p.bias_scale_size()));
  l.Check(p.net_height() >= 1 && p.net_width() >= 1, "detection_output_param.net_height",
          "net_height and net_width must be at least 1");
  l.Check(p.keep_top_k() != 0 && p.keep_top_k() >= -1, "detection_output_param.keep_top_k",
          StrCat("keep_top_k must be at least 1, or -1 for all, found ", p.keep_top_k()));
  Doubles sizes;
  for (const int32_t size : p.bias_scale()) {
    l.Check(size >= 1, "detection_output_param.bias_scale", StrCat("bias_scale must be at least 1, found ", size));
    sizes.push_back(size);
  }
  const float confidence = p.has_confidence_threshold() ? p.confidence_threshold() : -FLT_MAX;
  l.SetTop(0, l.b().Add1("center_grids", l.bottoms(),
                         {{"sizes", sizes},
                          {"picture", Ints{p.net_height(), p.net_width()}},
                          {"softmax", is_softmax},
                          {"landmarks", p.has_lm()},
                          {"confidence", Finite(l, "detection_output_param.confidence_threshold", confidence)},
                          {"nms", Finite(l, "detection_output_param.nms_thresh", p.nms_thresh())},
                          {"keep", int64_t{p.keep_top_k()}}}));
}

}  // namespace

LayerDef CenterGridOutputLayer() {
  return {.type = "CenterGridOutput",
          .max_bottoms = -1,
          .build = BuildCenterGridOutput,
          .params = {"detection_output_param"}};
}

}  // namespace moka
