// One walk down the ranks gives the thresholds; one walk back up gives the best precision from each recall on.
#include "optim/evaluators/ranked_curve.h"

#include <algorithm>
#include <cmath>

namespace moka {
namespace {

struct Threshold {
  double recall = 0;
  double precision = 0;
};

std::vector<Threshold> ThresholdsOf(const std::vector<RankedDetection>& ranked, int64_t objects) {
  std::vector<Threshold> thresholds;
  int64_t right = 0;
  for (size_t i = 0; i < ranked.size(); ++i) {
    right += ranked[i].right ? 1 : 0;
    const bool is_tied = i + 1 < ranked.size() && (ranked[i + 1].score == ranked[i].score ||
                                                   (std::isnan(ranked[i].score) && std::isnan(ranked[i + 1].score)));
    if (is_tied) continue;
    thresholds.push_back({.recall = static_cast<double>(right) / static_cast<double>(objects),
                          .precision = static_cast<double>(right) / static_cast<double>(i + 1)});
  }
  return thresholds;
}

}  // namespace

RankedCurve RankedCurveOf(std::vector<RankedDetection>& ranked, int64_t objects) {
  RankedCurve curve;
  if (objects <= 0) return curve;
  std::ranges::sort(ranked, [](const RankedDetection& a, const RankedDetection& b) {
    return a.score > b.score || (std::isnan(b.score) && !std::isnan(a.score));
  });
  const std::vector<Threshold> thresholds = ThresholdsOf(ranked, objects);
  double before = 0;
  for (const Threshold& t : thresholds) {
    curve.average_precision += (t.recall - before) * t.precision;
    before = t.recall;
  }
  double best = 0;
  auto next = thresholds.rbegin();
  for (int step = RankedCurve::kSteps; step >= 0; --step) {
    // 7 of 10 reach a recall of 0.7, however both are rounded.
    const double recall = static_cast<double>(step) / RankedCurve::kSteps - 1e-12;
    for (; next != thresholds.rend() && next->recall >= recall; ++next) best = std::max(best, next->precision);
    curve.precisions[static_cast<size_t>(step)] = best;
  }
  return curve;
}

}  // namespace moka
