// DetectionOutput: boxes out of an SSD net. Caffe's top grows with what was found; here it has the largest size and
// rows that are not used are -1. Result files (save_output_param) and windows (visualize) are not a net's business: the
// fields are accepted, with a warning.
//
// Forks' inputs are brought into SSD's form: Synopsys' maps as the convolutions leave them (no_permute), OpenVINO's
// regions in pixels (normalized: false). YOLO v2's port by BirdeeChen has another layer of this name.
#include <atomic>
#include <cfloat>

#include "core/log.h"
#include "core/text.h"
#include "layers/forks/ssd/layers/box_code.h"
#include "layers/forks/yolo/layers/fields.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

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

// Synopsys' bottoms of n maps: confidences [N,C,B,H*W], locations [N,4 B,H,W] (4 C B unless share_location), then all
// priors in one or those of each map. Only the order of boxes of one score differs from the fork's, which goes through
// a map box after box.
std::vector<ValueId> MapInputs(const LayerBuilder& l, const DetectionOutputParameter& p) {
  const GraphBuilder& b = l.b();
  const int maps = p.nbottom();
  l.Check(maps >= 1 && (l.bottom_count() == 2 * maps + 1 || l.bottom_count() == 3 * maps), "bottom",
          StrCat("no_permute wants confidences and locations of nbottom = ", maps,
                 " maps and their priors in one bottom or as many, found ", l.bottom_count(), " bottoms"));
  const int64_t classes = p.num_classes();
  const int64_t places = p.share_location() ? 1 : classes;
  std::vector<ValueId> confidences;
  std::vector<ValueId> locations;
  for (int i = 0; i < maps; ++i) {
    const Shape conf = l.shape(i);  // copies: shapes move as nodes are added
    const Shape loc = l.shape(maps + i);
    const bool fits = conf.rank() == 4 && loc.rank() == 4 && conf[0] == loc[0] && conf[1] == classes &&
                      loc[1] == conf[2] * places * 4 && conf[3] == loc[2] * loc[3];
    l.Check(fits, StrCat("bottom[", i, "]"),
            StrCat("a map of no_permute has confidences [N,", classes, ",boxes,H*W] and locations [N,boxes*",
                   places * 4, ",H,W], found ", conf.ToString(), " and ", loc.ToString()));
    const ValueId conf_last = b.Add1("transpose", {l.bottom(i)}, {{"perm", Ints{0, 3, 2, 1}}});
    confidences.push_back(b.Reshape(conf_last, {conf[0], conf.Count() / conf[0]}));
    const ValueId loc_apart = b.Reshape(l.bottom(maps + i), {loc[0], conf[2], places * 4, conf[3]});
    const ValueId loc_last = b.Add1("transpose", {loc_apart}, {{"perm", Ints{0, 3, 1, 2}}});
    locations.push_back(b.Reshape(loc_last, {loc[0], loc.Count() / loc[0]}));
  }
  const std::vector<ValueId> priors(l.bottoms().begin() + 2 * static_cast<std::ptrdiff_t>(maps), l.bottoms().end());
  for (size_t i = 0; i < priors.size(); ++i) {
    l.Check(b.shape(priors[i]).rank() == 3, StrCat("bottom[", 2 * maps + static_cast<int>(i), "]"),
            StrCat("priors are [1,2,P*4], found ", b.shape(priors[i]).ToString()));
  }
  const auto joined = [&](const std::vector<ValueId>& parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : b.Add1("concat", parts, {{"axis", axis}});
  };
  return {joined(locations, 1), joined(confidences, 1), joined(priors, 2)};
}

// OpenVINO's regions (image, xmin, ymin, xmax, ymax) in pixels as priors of the one image.
ValueId RegionPriors(const LayerBuilder& l, const DetectionOutputParameter& p) {
  const GraphBuilder& b = l.b();
  const int64_t count = l.shape(2).Count();
  l.Check(p.variance_encoded_in_target(), "detection_output_param.normalized",
          "regions (normalized: false) have no variances: variance_encoded_in_target must be true");
  l.Check(count % 5 == 0, "bottom[2]",
          StrCat("regions have five numbers each (normalized: false), found ", l.shape(2).ToString()));
  l.Check(l.shape(0).rank() > 0 && l.shape(0)[0] == 1, "bottom[0]",
          StrCat("regions (normalized: false) are those of one image, found ", l.shape(0).ToString()));
  l.Check(p.input_width() >= 1 && p.input_height() >= 1, "detection_output_param.input_width",
          "input_width and input_height must be at least 1");
  const ValueId rows = b.Reshape(l.bottom(2), {count / 5, 5});
  const std::vector<ValueId> columns = b.Add("slice", {rows}, {{"axis", int64_t{1}}, {"sizes", Ints{1, 1, 1, 1, 1}}});
  const auto part = [&](size_t i, int64_t size) {
    return b.Pointwise(StrCat("x0*", Number(1.0 / static_cast<double>(size))), {columns[i]});
  };
  const int64_t w = p.input_width();
  const int64_t h = p.input_height();
  const ValueId corners = b.Add1("concat", {part(1, w), part(2, h), part(3, w), part(4, h)}, {{"axis", int64_t{1}}});
  const ValueId places = b.Reshape(corners, {1, 1, count / 5 * 4});
  return b.Add1("concat", {places, b.Pointwise("x0*0+1", {places})}, {{"axis", int64_t{1}}});
}

// Locations, confidences, priors and what RefineDet adds. A fourth bottom of another size is the image to be drawn on.
std::vector<ValueId> Inputs(const LayerBuilder& l, const DetectionOutputParameter& p) {
  const int maps = p.nbottom();
  const bool has_maps = l.bottom_count() == 2 * maps + 1 || l.bottom_count() == 3 * maps || l.bottom_count() > 5;
  if (p.no_permute() && has_maps) return MapInputs(l, p);
  l.Check(l.bottom_count() >= 3 && l.bottom_count() <= 5, "bottom",
          StrCat("DetectionOutput takes 3 to 5 bottoms, found ", l.bottom_count()));
  std::vector<ValueId> inputs = l.bottoms();
  if (!p.normalized()) inputs[2] = RegionPriors(l, p);
  if (p.do_state_prediction()) {  // the fork asks for these values and writes none of them
    l.Check(inputs.size() == 4, "bottom", "do_state_prediction wants the states' values as fourth bottom");
    inputs.pop_back();
  }
  if (inputs.size() != 4) return inputs;
  const int64_t priors = l.shape(2).Count() / 8;
  const auto items = [&](int i) { return l.shape(i).rank() == 0 ? 1 : l.shape(i)[0]; };
  const bool is_stage = items(3) == items(0) && l.shape(3).Count() == items(0) * priors * 2;
  if (!is_stage) inputs.pop_back();
  return inputs;
}

// BirdeeChen's: the rows of YoloDetectionOutput with labels from 0 and boxes as centre and sides.
void BuildYolo(LayerBuilder& l) {
  const DetectionOutputParameter& p = l.param().detection_output_param();
  const GraphBuilder& b = l.b();
  l.Check(l.bottom_count() == 1, "bottom", StrCat("YOLO's DetectionOutput takes 1 bottom, found ", l.bottom_count()));
  l.Check(p.classes() >= 1, "detection_output_param.classes", "classes must be at least 1");
  l.Check(p.coords() == 4, "detection_output_param.coords", StrCat("a box has 4 coordinates, found ", p.coords()));
  Doubles sizes = AnchorsOf(l, "detection_output_param.biases", p.biases(), p.num_box());
  CheckMap(l, 0, p.num_box(), int64_t{5} + p.classes());
  for (size_t k = 0; k < sizes.size(); ++k) sizes[k] /= static_cast<double>(l.shape(0)[k % 2 == 0 ? 3 : 2]);
  constexpr float kLeastConfidence = 0.01F;
  const float confidence = p.has_confidence_threshold() ? p.confidence_threshold() : kLeastConfidence;
  const ValueId rows = b.Add1("yolo_detections", {l.bottom(0)},
                              {{"scores", std::string("softmax")},
                               {"classes", int64_t{p.classes()}},
                               {"boxes", int64_t{p.num_box()}},
                               {"anchors", sizes},
                               {"confidence", Finite(l, "detection_output_param.confidence_threshold", confidence)},
                               {"nms", Finite(l, "detection_output_param.nms_threshold", p.nms_threshold())}});
  const std::vector<ValueId> column =
      b.Add("slice", {rows}, {{"axis", int64_t{3}}, {"sizes", Ints{1, 1, 1, 1, 1, 1, 1}}});
  const auto used = [&](const std::string& expression, std::vector<ValueId> inputs) {
    inputs.insert(inputs.begin(), column[1]);
    return b.Pointwise(StrCat("select(gt(x0,0),", expression, ",-1)"), inputs);
  };
  l.SetTop(0, b.Add1("concat",
                     {column[0], used("x0-1", {}), column[2], used("(x1+x2)/2", {column[3], column[5]}),
                      used("(x1+x2)/2", {column[4], column[6]}), used("x2-x1", {column[3], column[5]}),
                      used("x2-x1", {column[4], column[6]})},
                     {{"axis", int64_t{3}}}));
}

// Fields of other layers that take detection_output_param.
void RefuseOthers(const LayerBuilder& l, const DetectionOutputParameter& p) {
  l.Check(p.bias_scale_size() == 0 && !p.has_class_type() && !p.has_nms_thresh(), "detection_output_param",
          "bias_scale, class_type and nms_thresh are CenterGridOutput's; DetectionOutput has priors and nms_param");
  l.Check(!p.has_lm(), "detection_output_param.has_lm", "DetectionOutput has no landmarks");
}

void BuildDetectionOutput(LayerBuilder& l) {
  const DetectionOutputParameter& p = l.param().detection_output_param();
  RefuseOthers(l, p);
  if (p.has_classes() || p.biases_size() > 0) {
    BuildYolo(l);
    return;
  }
  const NonMaximumSuppressionParameter& nms = p.nms_param();
  const auto number = [&](std::string_view name, float value) { return Finite(l, StrCat(kParam, ".", name), value); };
  l.Check(p.num_classes() >= 1, "detection_output_param.num_classes", "num_classes must be given, at least 1");
  l.Check(nms.nms_threshold() >= 0, "detection_output_param.nms_param.nms_threshold",
          StrCat("nms_threshold must not be negative, found ", nms.nms_threshold()));
  l.Check(nms.eta() > 0 && nms.eta() <= 1, "detection_output_param.nms_param.eta",
          StrCat("eta must be above 0 and at most 1, found ", nms.eta()));
  l.Check(!p.has_use_polygon() || p.use_polygon(), "detection_output_param.use_polygon",
          "use_polygon: false means TextBoxes++'s rotated boxes, which are not supported; leave it out for boxes");
  l.Check(!p.use_polygon() || (p.code_type() == PriorBoxParameter::CENTER_SIZE && !p.variance_encoded_in_target()),
          "detection_output_param.use_polygon",
          "use_polygon needs code_type: CENTER_SIZE without variance_encoded_in_target");
  WarnOnce(l, p);
  const float confidence = p.has_confidence_threshold() ? p.confidence_threshold() : -FLT_MAX;
  l.SetTop(0, l.b().Add1("detection_output", Inputs(l, p),
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
                          {"polygon", p.use_polygon()},
                          {"objectness", number("objectness_score", p.objectness_score())}}));
}

}  // namespace

LayerDef DetectionOutputLayer() {
  return {
      .type = "DetectionOutput",
      .doc =
          "Locations [N,P*4] (P*C*4 unless share_location), probabilities [N,P*C] and priors [1,2,P*4] to detections "
          "[1,1,N*R,7]: rows of image, label, score, xmin, ymin, xmax, ymax, image by image, label by label, the "
          "highest score first. For each class but the background, boxes above confidence_threshold go through "
          "non-maximum suppression (nms_param: nms_threshold, top_k, eta); the best keep_top_k of an image stay. R is "
          "keep_top_k, or less if there cannot be as many (-1: all there can be); unused rows are -1, and when "
          "nothing is found the first N rows hold just the image. No result file is written. Bottoms 3 and 4 are the "
          "first stage of RefineDet: confidences [N,P*2], locations [N,P*4]; another fourth bottom is not used. "
          "Forks: use_polygon (locations [N,P*12], rows of 15), no_permute (2 or 3 bottoms a map), normalized: false "
          "(regions in pixels as priors), classes and biases (YOLO v2's map as the one bottom).",
      .max_bottoms = -1,
      .build = BuildDetectionOutput,
      .page = {
          .params = {"detection_output_param"},
          .formula =
              "A prior with centre (cx, cy), sides (w, h), variances v and the location t gives the box: CENTER_SIZE "
              "centre `(cx + v_0 t_0 w, cy + v_1 t_1 h)` and sides `(w exp(v_2 t_2), h exp(v_3 t_3))`; CORNER "
              "(default) each corner coordinate plus `v_k t_k`; CORNER_SIZE plus `v_k t_k` times w or h. With "
              "variance_encoded_in_target v is 1.\n\nFor each class but background_label_id (default 0) the scores "
              "above confidence_threshold (default: all), the best nms_param.top_k, are looked at from the highest: a "
              "box goes if its intersection over union with one kept before is above nms_threshold (default 0.3), "
              "which is multiplied by eta at each box kept while above 0.5. Of an image's boxes the best keep_top_k "
              "stay, of equal scores the earlier. The top [1,1,N*R,7] has `R = max(1, min(keep_top_k, min(top_k, P) * "
              "object classes))`, -1 meaning no bound.\n\nno_permute with n = nbottom maps: bottoms 0 to n-1 are "
              "confidences [N,C,B,H*W] and n to 2n-1 locations [N,4B,H,W] of B boxes a cell, the rest priors, in one "
              "or n bottoms. normalized: false: bottom 2 is rows (image, xmin, ymin, xmax, ymax) in pixels of "
              "input_width x input_height. With classes or biases the bottom is YOLO v2's [N, num_box (5 + classes), "
              "H, W] and the top YoloDetectionOutput's, its labels from 0 and its boxes (centre x, centre y, width, "
              "height).\n\nuse_polygon: a prior's location is t and eight numbers u: corner k of a polygon, clockwise "
              "from the upper left one, is the prior's own plus `(v_0 w u_2k, v_1 h u_2k+1)`. Boxes alone are "
              "suppressed; the top [1,1,N*R,15] has the corners x1, y1, ..., x4, y4 after each box. It needs "
              "CENTER_SIZE.",
          .gradient = "None: no bottom gets one.",
          .source =
              "SSD's Caffe (Liu et al., arXiv 1512.02325), with RefineDet's first stage (Zhang et al., arXiv "
              "1711.06897): its locations move the priors, and a prior below objectness_score in its confidences is "
              "background. Caffe's top grows with what was found; here it has the largest size and rows that are not "
              "used are -1. no_permute and nbottom are Synopsys', normalized OpenVINO's, do_state_prediction "
              "TL-SSD's, whose top is the same with it; the YOLO layer is BirdeeChen's, which suppresses boxes in the "
              "order of their cells, and here from the highest score on. use_polygon is TextBoxes++'s (Liao, Shi, "
              "Bai, arXiv 1801.02765), whose default it is; its rotated boxes (use_polygon: false) are refused. "
              "save_output_param and visualize are accepted with a warning and do nothing.",
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
