// Probabilities are made in doubles, which sums of a thousand classes want.
#include "tools/infer/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace moka {
namespace {

std::vector<double> ProbabilitiesOf(std::span<const float> scores) {
  constexpr double kMost = 1e30;  // for infinite scores, whose differences are no numbers
  std::vector<double> p(scores.begin(), scores.end());
  for (double& value : p) value = std::clamp(value, -kMost, kMost);
  const bool are_parts = std::ranges::all_of(p, [](double value) { return value >= 0 && value <= 1; });
  if (p.size() == 1) {
    if (!are_parts) p[0] = 1 / (1 + std::exp(-p[0]));
    return {p[0], 1 - p[0]};
  }
  constexpr double kRounding = 1e-3;
  if (are_parts && std::abs(std::accumulate(p.begin(), p.end(), 0.0) - 1) < kRounding) return p;
  const double most = *std::ranges::max_element(p);
  for (double& value : p) value = std::exp(value - most);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= sum;
  return p;
}

double EntropyTerm(double p) { return p > 0 ? -p * std::log2(p) : 0; }

}  // namespace

double MarginUncertainty(std::span<const float> scores) {
  if (scores.empty()) return 0;
  std::vector<double> p = ProbabilitiesOf(scores);
  std::partial_sort(p.begin(), p.begin() + 2, p.end(), std::greater<>());
  return std::clamp(1 - (p[0] - p[1]), 0.0, 1.0);
}

double EntropyUncertainty(std::span<const float> scores) {
  if (scores.empty()) return 0;
  double bits = 0;
  const std::vector<double> p = ProbabilitiesOf(scores);
  for (const double value : p) bits += EntropyTerm(value);
  return std::clamp(bits / std::log2(static_cast<double>(p.size())), 0.0, 1.0);
}

double DetectionUncertainty(std::span<const double> scores) {
  double weighted = 0;
  double sum = 0;
  for (const double score : scores) {
    const double s = std::clamp(score, 0.0, 1.0);
    weighted += s * (EntropyTerm(s) + EntropyTerm(1 - s));
    sum += s;
  }
  return sum > 0 ? weighted / sum : 0;
}

}  // namespace moka
