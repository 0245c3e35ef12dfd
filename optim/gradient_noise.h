// The gradient noise scale (McCandlish, Kaplan, Amodei et al. 2018, "An empirical model of large-batch training", arXiv
// 1812.06162, appendix A.1): how much the gradients of single samples differ, tr(Sigma), beside how large the true
// gradient is, |G|^2. The gradient of a batch of B samples has E |G_B|^2 = |G|^2 + tr(Sigma) / B, so two sizes of
// batches, a part of b samples and all B of an update, give both without bias:
//
//   |G|^2     = (B |G_B|^2 - b |G_b|^2) / (B - b)
//   tr(Sigma) = (|G_b|^2 - |G_B|^2) / (1/b - 1/B)
//
// Their quotient has a bias, so each is smoothed by itself. The scale B_noise = tr(Sigma) / |G|^2 is about the batch
// beyond which more samples save few steps: at batch B a training takes S_min (1 + B_noise / B) steps and
// E_min (1 + B / B_noise) samples (equation 2.11).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moka {

// The squared norms of one update's gradients, each the mean of its samples' gradients.
struct GradientNorms {
  double of_part = 0;  // |G_b|^2, the mean over the parts that were looked at
  double of_all = 0;   // |G_B|^2
  int64_t part_samples = 0;
  int64_t all_samples = 0;
};

// The exponential means of both over the updates that were measured; plain numbers, which checkpoints keep.
struct GradientNoise {
  int64_t measured = 0;
  // Exponential sums with the weight of what they are sums of: 1 - decay^measured.
  double weight = 0;
  double gradient_sum = 0;
  double variance_sum = 0;

  // Takes an update in, if there is one. Requires: its numbers are finite, 0 < part_samples < all_samples.
  void Take(const std::optional<GradientNorms>& norms, double decay);
  // |G|^2 and tr(Sigma). Requires: something was measured (for the next, too).
  double gradient_square() const { return gradient_sum / weight; }
  double gradient_variance() const { return variance_sum / weight; }
  // B_noise in samples; none where nothing was measured or the mean of |G|^2 is not above 0, lost in the noise.
  std::optional<double> scale() const;

  // For the log: "512 (|G|^2 0.0123, tr(Sigma) 6.3)". Requires: something was measured.
  std::string Describe() const;
  // A sentence of the scale, and what it predicts at a batch of `batch` samples. Requires: the same.
  std::string DescribePrediction(int64_t batch) const;
  friend bool operator==(const GradientNoise&, const GradientNoise&) = default;
};

}  // namespace moka
