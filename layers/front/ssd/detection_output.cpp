// DetectionOutput: boxes out of an SSD net. Caffe's top grows with what was found; here it has the largest size and
// rows that are not used are -1. Result files (save_output_param) and windows (visualize) are not a net's business: the
// fields are accepted, with a warning.
#include <atomic>
#include <cfloat>

#include "core/log.h"
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/ssd/layers.h"

namespace moka {
namespace {

constexpr std::string_view kParam = "detection_output_param";

void WarnOnce(const LayerBuilder& l, const DetectionOutputParameter& p) {
  static std::atomic<bool> warned = false;
  const bool saves = !p.save_output_param().output_directory().empty();
  if ((!saves && !p.visualize()) || warned.exchange(true)) return;
  LogWarning(StrCat("layer \"", l.param().name(), "\": ", saves ? "save_output_param" : "visualize",
                    " has no effect here; the detections are the layer's top"));
}

// -1: all.
int64_t TopK(const LayerBuilder& l, std::string_view name, bool has, int64_t value) {
  if (!has) return -1;
  l.Check(value != 0 && value >= -1, StrCat(kParam, ".", name),
          StrCat(name, " must be at least 1, or -1 for all, found ", value));
  return value;
}

// Locations, confidences, priors and what RefineDet adds. A fourth bottom of another size is the image to be drawn on.
std::vector<ValueId> Inputs(const LayerBuilder& l) {
  std::vector<ValueId> inputs = l.bottoms();
  if (inputs.size() != 4) return inputs;
  const int64_t priors = l.shape(2).Count() / 8;
  const auto items = [&](int i) { return l.shape(i).rank() == 0 ? 1 : l.shape(i)[0]; };
  const bool is_stage = items(3) == items(0) && l.shape(3).Count() == items(0) * priors * 2;
  if (!is_stage) inputs.pop_back();
  return inputs;
}

void Build(LayerBuilder& l) {
  const DetectionOutputParameter& p = l.param().detection_output_param();
  const NonMaximumSuppressionParameter& nms = p.nms_param();
  const auto number = [&](std::string_view name, float value) { return Finite(l, StrCat(kParam, ".", name), value); };
  l.Check(p.num_classes() >= 1, "detection_output_param.num_classes", "num_classes must be given, at least 1");
  l.Check(nms.nms_threshold() >= 0, "detection_output_param.nms_param.nms_threshold",
          StrCat("nms_threshold must not be negative, found ", nms.nms_threshold()));
  l.Check(nms.eta() > 0 && nms.eta() <= 1, "detection_output_param.nms_param.eta",
          StrCat("eta must be above 0 and at most 1, found ", nms.eta()));
  WarnOnce(l, p);
  const float confidence = p.has_confidence_threshold() ? p.confidence_threshold() : -FLT_MAX;
  l.SetTop(0, l.b().Add1("detection_output", Inputs(l),
                         {{"classes", int64_t{p.num_classes()}},
                          {"share_location", p.share_location()},
                          {"background", int64_t{p.background_label_id()}},
                          {"code", BoxCodeWord(p.code_type())},
                          {"variance_in_target", p.variance_encoded_in_target()},
                          {"confidence_threshold", number("confidence_threshold", confidence)},
                          {"nms_threshold", number("nms_param.nms_threshold", nms.nms_threshold())},
                          {"eta", number("nms_param.eta", nms.eta())},
                          {"top_k", TopK(l, "nms_param.top_k", nms.has_top_k(), nms.top_k())},
                          {"keep_top_k", TopK(l, "keep_top_k", true, p.keep_top_k())},
                          {"objectness", number("objectness_score", p.objectness_score())}}));
}

}  // namespace

LayerDef DetectionOutputLayer() {
  return {
      .type = "DetectionOutput",
      .doc =
          "Locations [N,P*4] (P*C*4 unless share_location), probabilities [N,P*C] and priors [1,2,P*4] to "
          "detections [1,1,N*R,7]: rows of image, label, score, xmin, ymin, xmax, ymax, image by image, label by "
          "label, the highest score first. For each class but the background, boxes above confidence_threshold go "
          "through non-maximum suppression (nms_param: nms_threshold, top_k, eta); the best keep_top_k of an image "
          "stay. R is keep_top_k, or less if there cannot be as many (-1: all there can be); unused rows are -1, and "
          "when nothing "
          "is found the first N rows hold just the image. No result file is written. Bottoms 3 and 4 are the first "
          "stage of RefineDet: confidences [N,P*2], locations [N,P*4]; another fourth bottom is not used.",
      .min_bottoms = 3,
      .max_bottoms = 5,
      .build = Build,
      .page = {
          .params = {"detection_output_param"},
          .formula = "A prior with centre (cx, cy), sides (w, h), variances v and the location t gives the box: "
                     "CENTER_SIZE centre `(cx + v_0 t_0 w, cy + v_1 t_1 h)` and sides `(w exp(v_2 t_2), h exp(v_3 "
                     "t_3))`; CORNER (default) each corner coordinate plus `v_k t_k`; CORNER_SIZE plus `v_k t_k` "
                     "times w or h. With variance_encoded_in_target v is 1.\n\nFor each class but "
                     "background_label_id (default 0) the scores above confidence_threshold (default: all), the "
                     "best nms_param.top_k, are looked at from the highest: a box goes if its intersection over "
                     "union with one kept before is above nms_threshold (default 0.3), which is multiplied by eta "
                     "at each box kept while above 0.5. Of an image's boxes the best keep_top_k stay, of equal "
                     "scores the earlier. The top [1,1,N*R,7] has `R = max(1, min(keep_top_k, min(top_k, P) * "
                     "object classes))`, -1 meaning no bound.",
          .gradient = "None: no bottom gets one.",
          .source = "SSD's Caffe (Liu et al., arXiv 1512.02325), with RefineDet's first stage (Zhang et al., "
                    "arXiv 1711.06897): its locations move the priors, and a prior below objectness_score in its "
                    "confidences is background. Caffe's top grows with what was found; here it has the largest "
                    "size and rows that are not used are -1. save_output_param and visualize are accepted with a "
                    "warning and do nothing.",
          .example =
              R"(layer { name: "map" type: "Input" top: "map" input_param { shape { dim: 2 dim: 8 dim: 2 dim: 2 } } }
layer { name: "loc" type: "Input" top: "loc" input_param { shape { dim: 2 dim: 16 } } }
layer { name: "conf" type: "Input" top: "conf" input_param { shape { dim: 2 dim: 12 } } }
layer {
  name: "prior"
  type: "PriorBox"
  bottom: "map"
  top: "prior"
  prior_box_param { min_size: 20 img_size: 64 }
}
layer {
  name: "found"
  type: "DetectionOutput"
  bottom: "loc"
  bottom: "conf"
  bottom: "prior"
  top: "found"
  detection_output_param {
    num_classes: 3
    code_type: CENTER_SIZE
    nms_param { nms_threshold: 0.45 top_k: 4 }
    keep_top_k: 5
    confidence_threshold: 0.3
  }
})"}};
}

}  // namespace moka
