// SSD's DetectionEvaluate: detections against ground truth, as rows that average precision is computed from.
#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/forks/ssd/ops/evaluation.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kDetectionEvaluateOp = "detection_evaluate";

std::vector<TensorType> InferDetectionEvaluate(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kDetectionEvaluateOp, in, 2, 2);
  CheckFloat(kDetectionEvaluateOp, "detections", in[0]);
  const Size rows = RowCount(kDetectionEvaluateOp, "detections", in[0].shape, 7);
  (void)RowCount(kDetectionEvaluateOp, "truth", in[1].shape, 8);
  const Size all = rows + EvaluationSettings::Of(attributes).ClassRows();
  return {PlainType(StatisticsType(in[0].dtype), {1, 1, all.value(), 5})};
}

void DetectionEvaluateReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  DetectionJudge(EvaluationSettings::Of(attributes))
      .Evaluate(View(in[0]), in[0].type.shape[2], View(in[1]), in[1].type.shape[2], View(out[0]));
}

OpCase DetectionEvaluateCase(const char* name, Attributes attributes) {
  attributes.Set("classes", int64_t{2});
  return {.name = name,
          .inputs = {Float32({1, 1, 30, 7}), Float32({1, 1, 60, 8})},
          .attributes = std::move(attributes),
          .ranges = {{0, -1, 1}, {1, 0, 1}}};
}

std::vector<OpCase> DetectionEvaluateCases() {
  return {DetectionEvaluateCase("defaults", {}), DetectionEvaluateCase("no_background", {{"background", int64_t{-1}}}),
          DetectionEvaluateCase("easy_only", {{"evaluate_difficult", false}, {"overlap_threshold", 0.2}})};
}

}  // namespace

EvaluationSettings EvaluationSettings::Of(const Attributes& a) {
  const EvaluationSettings s{a.Int("classes"), a.Int("background"), a.Float("overlap_threshold"),
                             a.Bool("evaluate_difficult")};
  if (s.classes < 1)
    throw Error(ErrorKind::kConfig, StrCat(kDetectionEvaluateOp, ": classes must be at least 1, found ", s.classes));
  return s;
}

OpDef DetectionEvaluateOp() {
  return {.name = "detection_evaluate",
          .doc =
              "(detections [1,1,R,7], truth [1,1,G,8]) -> rows [1,1,K+R,5]: for each of K classes but the background "
              "(-1, class, objects, -1, -1); then for each detection (image, class, score, right, wrong); unused "
              "rows are -1.",
          .attributes = {{"classes", std::nullopt, "classes, the background among them"},
                         {"background", int64_t{0}, "the class that is no object; -1: none"},
                         {"overlap_threshold", 0.5, "the least overlap of a right detection"},
                         {"evaluate_difficult", true, "whether difficult objects count"}},
          .infer = InferDetectionEvaluate,
          .reference = DetectionEvaluateReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kEvaluates,
          .cases = DetectionEvaluateCases};
}

}  // namespace moka
