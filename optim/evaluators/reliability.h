// Whether a classifier is right as often as it says that it is: its confidence beside its accuracy in bins (Guo,
// Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", ICML 2017, arXiv 1706.04599).
#pragma once

#include <array>
#include <cstdint>

namespace moka {

// One thread.
class Reliability {
 public:
  static constexpr int kBins = 15;
  // The samples whose confidence lies in (i/15, (i+1)/15].
  struct Bin {
    int64_t samples = 0;
    int64_t right = 0;
    double confidences = 0;  // their sum
    double accuracy() const { return samples == 0 ? 0 : static_cast<double>(right) / static_cast<double>(samples); }
    double confidence() const { return samples == 0 ? 0 : confidences / static_cast<double>(samples); }
  };

  // Takes a sample: the probability that the net gave the class it chose, and whether that was right. A confidence that
  // is no number counts nowhere.
  void Add(double confidence, bool is_right);

  const std::array<Bin, kBins>& bins() const { return bins_; }
  int64_t samples() const;
  double mean_confidence() const;
  // The expected calibration error: the mean of |accuracy - confidence| over bins, each weighed by its samples.
  double expected_error() const;
  // The largest of the bins that have samples.
  double largest_error() const;

 private:
  std::array<Bin, kBins> bins_{};
};

}  // namespace moka
