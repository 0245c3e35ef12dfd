// DetectionOutput: boxes out of an SSD net. Caffe's top grows with what was found; here it has the largest size and
// rows that are not used are -1. Result files (save_output_param) and windows (`visualize`) are not a net's business:
// the fields are accepted, with a warning.
//
// Forks' inputs are brought into SSD's form: Synopsys' maps as the convolutions leave them (no_permute), OpenVINO's
// regions in pixels (`normalized: false`). YOLO v2's port by BirdeeChen has another layer of this name.
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
    return Computed(b, Term::Of(columns[i]) * Decimal(1.0 / static_cast<double>(size)));
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
  const auto at = [&](size_t i) { return Term::Of(column[i]); };
  const auto used = [&](const Term& value, std::vector<ValueId> inputs = {}) {
    return Computed(b, Select(at(1) > 0, value, -1), std::move(inputs));
  };
  const auto side = [&](size_t begin, size_t end) {
    return used(at(end) - at(begin), {column[1], column[begin], column[end]});
  };
  l.SetTop(0, b.Add1("concat",
                     {column[0], used(at(1) - 1), column[2], used((at(3) + at(5)) / 2), used((at(4) + at(6)) / 2),
                      side(3, 5), side(4, 6)},
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
  return {.type = "DetectionOutput",
          .max_bottoms = -1,
          .build = BuildDetectionOutput,
          .params = {"detection_output_param"}};
}

}  // namespace moka
