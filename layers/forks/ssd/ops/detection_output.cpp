// SSD's DetectionOutput: decoded boxes, non-maximum suppression for each class, the best keep_top_k of an image.
#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/detection.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kDetectionOutputOp = "detection_output";

std::vector<TensorType> InferDetectionOutput(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kDetectionOutputOp, in, 3, 5);
  CheckFloat(kDetectionOutputOp, "loc", in[0]);
  const DetectionSettings s = DetectionSettings::Of(attributes);
  const int64_t priors = PriorCount(kDetectionOutputOp, in[2].shape);
  const Shape& loc = in[0].shape;
  const int64_t items = loc.rank() == 0 ? 0 : loc[0];
  CheckPerItem(
      kDetectionOutputOp, "loc", loc, items, (Size(priors) * s.location_classes() * s.location_numbers()).value(),
      StrCat(priors, " priors, ", s.location_classes(), " location classes, ", s.location_numbers(), " coordinates"));
  CheckPerItem(kDetectionOutputOp, "conf", in[1].shape, items, (Size(priors) * s.classes).value(),
               StrCat(priors, " priors, ", s.classes, " classes"));
  if (in.size() > 3) {
    CheckPerItem(kDetectionOutputOp, "arm_conf", in[3].shape, items, priors * 2,
                 StrCat(priors, " priors, object or not"));
  }
  if (in.size() > 4) {
    CheckPerItem(kDetectionOutputOp, "arm_loc", in[4].shape, items, priors * 4,
                 StrCat(priors, " priors, 4 coordinates"));
  }
  const Size rows = Size(items) * s.RowsAnImage(priors);
  return {PlainType(StatisticsType(in[0].dtype), {1, 1, rows.value(), s.row_width()})};
}

void DetectionOutputReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const DetectionSettings s = DetectionSettings::Of(attributes);
  const int64_t items = in[0].type.shape[0];
  const int64_t priors = in[2].type.shape.Count() / 8;
  std::vector<Box> boxes;
  std::vector<BoxCode> variances;
  ReadPriors(View(in[2]), priors, boxes, variances);
  Detector detector(s);
  std::vector<std::vector<Detection>> found(static_cast<size_t>(items));
  for (int64_t i = 0; i < items; ++i) {
    const auto input = [&](size_t n) {
      return n < in.size() ? View(in[n]).From(i * (in[n].type.shape.Count() / items)) : Reals();
    };
    detector.Detect({input(0), input(1), input(3), input(4)}, boxes, variances, found[static_cast<size_t>(i)]);
  }
  WriteDetections(found, out[0].type.shape[2], s.row_width(), View(out[0]));
}

OpCase DetectionOutputCase(const char* name, Attributes attributes, int64_t location_classes = 1, int64_t numbers = 4) {
  constexpr int64_t kPriors = 8;
  constexpr int64_t kClasses = 3;
  attributes.Set("classes", kClasses);
  return {.name = name,
          .inputs = {Float32({2, kPriors * location_classes * numbers}), Float32({2, kPriors * kClasses, 1, 1}),
                     Float32({1, 2, kPriors * 4})},
          .attributes = std::move(attributes),
          .ranges = {{1, 0.01, 0.99}, {2, 0.01, 0.99}}};
}

std::vector<OpCase> DetectionOutputCases() {
  std::vector<OpCase> cases = {
      DetectionOutputCase("defaults", {}),
      DetectionOutputCase("few",
                          {{"keep_top_k", int64_t{3}}, {"top_k", int64_t{2}}, {"code", std::string("center_size")}}),
      DetectionOutputCase("own_locations", {{"share_location", false}, {"keep_top_k", int64_t{20}}}, 3),
      DetectionOutputCase("adaptive", {{"eta", 0.7}, {"nms_threshold", 0.9}, {"background", int64_t{-1}}}),
      DetectionOutputCase("nothing_found", {{"confidence_threshold", 2.0}}),
      DetectionOutputCase("polygons",
                          {{"polygon", true}, {"code", std::string("center_size")}, {"keep_top_k", int64_t{5}}}, 1, 12),
      DetectionOutputCase("own_polygons",
                          {{"polygon", true}, {"code", std::string("center_size")}, {"share_location", false}}, 3, 12),
  };
  OpCase refined = DetectionOutputCase("second_stage", {{"objectness", 0.3}});
  refined.inputs.push_back(Float32({2, 16}));
  refined.inputs.push_back(Float32({2, 32}));
  cases.push_back(std::move(refined));
  return cases;
}

}  // namespace

DetectionSettings DetectionSettings::Of(const Attributes& a) {
  DetectionSettings s;
  s.classes = a.Int("classes");
  s.share_location = a.Bool("share_location");
  s.background = a.Int("background");
  s.coding = BoxCoding::Of(kDetectionOutputOp, a);
  s.confidence_threshold = a.Float("confidence_threshold");
  s.nms_threshold = a.Float("nms_threshold");
  s.eta = a.Float("eta");
  s.top_k = a.Int("top_k");
  s.keep_top_k = a.Int("keep_top_k");
  s.objectness = a.Float("objectness");
  s.polygon = a.Bool("polygon");
  if (s.classes < 1 || s.top_k == 0 || s.keep_top_k == 0) {
    throw Error(ErrorKind::kConfig,
                StrCat(kDetectionOutputOp, ": classes must be at least 1, top_k and keep_top_k not 0; found ",
                       s.classes, ", ", s.top_k, ", ", s.keep_top_k));
  }
  return s;
}

std::vector<AttributeSpec> DetectionAttributes() {
  std::vector<AttributeSpec> specs = BoxCodingAttributes();
  const std::vector<AttributeSpec> own = {
      {"classes", std::nullopt, "classes, the background among them"},
      {"share_location", true, "whether all classes share one predicted box a prior"},
      {"background", int64_t{0}, "the class that is no object; -1: none"},
      {"confidence_threshold", 0.0, "only higher scores are looked at"},
      {"nms_threshold", 0.3, "overlap above which a lower score is dropped"},
      {"eta", 1.0, "what the threshold above is multiplied by at each box kept, while over 0.5"},
      {"top_k", int64_t{-1}, "boxes of a class that suppression looks at; -1: all"},
      {"keep_top_k", int64_t{-1}, "boxes of an image; -1: all"},
      {"objectness", 0.01, "priors below this in arm_conf are background"},
      {"polygon", false, "whether the codes of four corners follow each box's"}};
  specs.insert(specs.end(), own.begin(), own.end());
  return specs;
}

OpDef DetectionOutputOp() {
  return {.name = "detection_output",
          .doc =
              "(loc [N,P*L*4], conf [N,P*C] of probabilities, prior [1,2,P*4], optionally arm_conf [N,P*2] and "
              "arm_loc [N,P*4]) -> rows [1,1,R,7] of image, label, score, xmin, ymin, xmax, ymax; unused rows are "
              "-1. With polygon loc is [N,P*L*12] and a row ends with the corners x1, y1, ..., x4, y4.",
          .attributes = DetectionAttributes(),
          .infer = InferDetectionOutput,
          .reference = DetectionOutputReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kSuppresses,
          .cases = DetectionOutputCases};
}

}  // namespace moka
