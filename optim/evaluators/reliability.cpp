// Fifteen bins of equal width, closed above as in the paper.
#include "optim/evaluators/reliability.h"

#include <algorithm>
#include <cmath>

namespace moka {

void Reliability::Add(double confidence, bool is_right) {
  if (std::isnan(confidence)) return;
  const int bin = std::clamp(static_cast<int>(std::ceil(std::clamp(confidence, 0.0, 1.0) * kBins)) - 1, 0, kBins - 1);
  Bin& taken = bins_.at(static_cast<size_t>(bin));
  ++taken.samples;
  taken.right += is_right ? 1 : 0;
  taken.confidences += confidence;
}

int64_t Reliability::samples() const {
  int64_t samples = 0;
  for (const Bin& bin : bins_) samples += bin.samples;
  return samples;
}

double Reliability::mean_confidence() const {
  double sum = 0;
  for (const Bin& bin : bins_) sum += bin.confidences;
  return sum / static_cast<double>(std::max<int64_t>(samples(), 1));
}

double Reliability::expected_error() const {
  double sum = 0;
  for (const Bin& bin : bins_) sum += static_cast<double>(bin.samples) * std::abs(bin.accuracy() - bin.confidence());
  return sum / static_cast<double>(std::max<int64_t>(samples(), 1));
}

double Reliability::largest_error() const {
  double largest = 0;
  for (const Bin& bin : bins_) largest = std::max(largest, std::abs(bin.accuracy() - bin.confidence()));
  return largest;
}

}  // namespace moka
