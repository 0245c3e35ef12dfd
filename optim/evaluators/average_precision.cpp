// Curves are in float and ties keep their order, so that 11-point, MaxIntegral and Integral precisions equal SSD's
// printed ones.
#include "optim/evaluators/average_precision.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array<std::string_view, 3> kRules = {"11point", "MaxIntegral", "Integral"};

// Precision and recall down to each detection, in float: 7 of 10 is then below a recall of 0.7, as in Caffe.
struct Curve {
  std::vector<float> precision;
  std::vector<float> recall;
};

Curve CurveOf(std::span<const RankedDetection> detections, int64_t objects) {
  std::vector<RankedDetection> ranked(detections.begin(), detections.end());
  // NaNs last: a sort needs an order.
  std::ranges::stable_sort(ranked, [](const RankedDetection& a, const RankedDetection& b) {
    return a.score > b.score || (std::isnan(b.score) && !std::isnan(a.score));
  });
  Curve curve;
  int64_t right = 0;
  for (const RankedDetection& d : ranked) {
    right += d.right ? 1 : 0;
    const auto seen = static_cast<float>(curve.precision.size() + 1);
    curve.precision.push_back(static_cast<float>(right) / seen);
    curve.recall.push_back(static_cast<float>(right) / static_cast<float>(objects));
  }
  return curve;
}

double ElevenPoints(const Curve& curve) {
  double sum = 0;
  for (int j = 0; j <= 10; ++j) {
    float best = 0;
    for (size_t i = 0; i < curve.recall.size(); ++i) {
      if (double{curve.recall[i]} >= j / 10.0) best = std::max(best, curve.precision[i]);
    }
    sum += double{best} / 11;
  }
  return sum;
}

double AreaUnder(const Curve& curve, bool monotonous) {
  std::vector<float> precision = curve.precision;
  for (size_t i = precision.size() - 1; monotonous && i > 0; --i) {
    precision[i - 1] = std::max(precision[i - 1], precision[i]);
  }
  double area = 0;
  double before = 0;
  for (size_t i = 0; i < precision.size(); ++i) {
    area += double{precision[i]} * (double{curve.recall[i]} - before);
    before = double{curve.recall[i]};
  }
  return area;
}

}  // namespace

PrecisionRule PrecisionRuleNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name);
  if (found != kRules.end()) return static_cast<PrecisionRule>(found - kRules.begin());
  throw Error(ErrorKind::kConfig, {}, StrCat("there is no rule of average precision \"", name, "\""),
              DidYouMean(name, {kRules.begin(), kRules.end()}));
}

double AveragePrecision(std::span<const RankedDetection> detections, int64_t objects, PrecisionRule rule) {
  if (detections.empty() || objects <= 0) return 0;
  const Curve curve = CurveOf(detections, objects);
  return rule == PrecisionRule::kElevenPoint ? ElevenPoints(curve)
                                             : AreaUnder(curve, rule == PrecisionRule::kMaxIntegral);
}

void DetectionScores::Add(std::span<const float> rows) {
  Require(rows.size() % 5 == 0, "rows of DetectionEvaluate have five numbers");
  for (; !rows.empty(); rows = rows.subspan(5)) {
    if (!(rows[1] >= 0)) continue;  // padding
    const auto label = static_cast<int64_t>(rows[1]);
    if (rows[0] == -1) {
      classes_[label].objects += static_cast<int64_t>(rows[2]);
      continue;
    }
    const bool right = rows[3] == 1;
    if (right || rows[4] == 1) classes_[label].detections.push_back({rows[2], right});
  }
}

std::map<int64_t, double> DetectionScores::AveragePrecisions(PrecisionRule rule) const {
  std::map<int64_t, double> precisions;
  for (const auto& [label, found] : classes_) {
    precisions[label] = AveragePrecision(found.detections, found.objects, rule);
  }
  return precisions;
}

double DetectionScores::Mean(PrecisionRule rule) const {
  if (classes_.empty()) return 0;
  double sum = 0;
  for (const auto& [label, precision] : AveragePrecisions(rule)) sum += precision;
  return sum / static_cast<double>(classes_.size());
}

}  // namespace moka
