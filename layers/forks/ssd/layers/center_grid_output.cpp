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
  return {
      .type = "CenterGridOutput",
      .doc =
          "Faces from maps [N,C,H,W], each for faces of about bias_scale pixels: C is 4 places and 1 score (class_type "
          "SIGMOID), or 4 places, 10 of landmarks with has_lm, and 2 scores (SOFTMAX). The top [1,1,R,7] (17 with "
          "has_lm) has rows (image, 1, score, xmin, ymin, xmax, ymax, landmarks) as parts of the picture of "
          "net_height x net_width, image by image and best first; unused rows are -1, and when nothing is found the "
          "first N rows hold just the image. R is N times keep_top_k, or all cells.",
      .max_bottoms = -1,
      .build = BuildCenterGridOutput,
      .page = {
          .params = {"detection_output_param"},
          .formula =
              "With r = net_width / W pixels a cell and b the map's bias_scale (half of it for SIGMOID), value v of a "
              "place of cell (i, j) stands for `(j + 1/2) r - v b` (xmin, xmax, x of landmarks) or `(i + 1/2) r - v "
              "b` (ymin, ymax, y), bounded to the picture. The score is the sigmoid of the value, or the softmax's "
              "second. Boxes without area and those below confidence_threshold (default: none) are left out; of the "
              "rest of all maps of an image, from the highest score on, one stays if its overlap with none kept is "
              "above nms_thresh (default 0.4), at most keep_top_k. The overlap is u / (A + B - u), u = (w + 1)(h + 1) "
              "for a common part of w x h pixels.",
          .gradient = "None: no bottom gets one.",
          .source = "The layer of that name of yuqj1991's Caffe, for nets after LFFD (He et al., arXiv 1904.10633). "
                    "There y of "
                    "landmarks starts at the column, which cannot be meant: here at the row.",
          .example =
              R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 dim: 5 dim: 6 dim: 6 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 1 dim: 5 dim: 3 dim: 3 } } }
layer {
  name: "faces"
  type: "CenterGridOutput"
  bottom: "a"
  bottom: "b"
  top: "faces"
  detection_output_param {
    num_classes: 1
    class_type: SIGMOID
    bias_scale: 8
    bias_scale: 20
    net_height: 48
    net_width: 48
    confidence_threshold: 0.5
    keep_top_k: 10
  }
})"}};
}

}  // namespace moka
