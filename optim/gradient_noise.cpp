// Both estimates of an update enter their sums at once, so that the correction for the sums' beginning at 0 is the same
// and falls out of the quotient.
#include "optim/gradient_noise.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace moka {

void GradientNoise::Take(const std::optional<GradientNorms>& norms, double decay) {
  if (!norms) return;
  Require(norms->part_samples > 0 && norms->part_samples < norms->all_samples, "a part is smaller than the whole");
  const auto b = static_cast<double>(norms->part_samples);
  const auto all = static_cast<double>(norms->all_samples);
  const double gradient = (all * norms->of_all - b * norms->of_part) / (all - b);
  const double variance = (norms->of_part - norms->of_all) / (1 / b - 1 / all);
  ++measured;
  weight = decay * weight + (1 - decay);
  gradient_sum = decay * gradient_sum + (1 - decay) * gradient;
  variance_sum = decay * variance_sum + (1 - decay) * variance;
}

std::optional<double> GradientNoise::scale() const {
  if (measured == 0 || gradient_sum <= 0) return std::nullopt;
  return std::max(variance_sum, 0.0) / gradient_sum;
}

std::string GradientNoise::Describe() const {
  const std::optional<double> known = scale();
  return fmt::format("{} (|G|^2 {:.4g}, tr(Sigma) {:.4g})", known ? fmt::format("{:.4g}", *known) : "not known yet",
                     gradient_square(), gradient_variance());
}

std::string GradientNoise::DescribePrediction(int64_t batch) const {
  const std::optional<double> known = scale();
  const std::string updates = fmt::format("{} measured update{}", measured, measured == 1 ? "" : "s");
  if (!known) {
    return fmt::format(
        "the gradient noise scale is not known after {}: the gradient is lost in the noise of a batch of {}, so a "
        "larger batch is useful",
        updates, batch);
  }
  const double noise = *known;
  const auto samples = static_cast<double>(std::max<int64_t>(batch, 1));
  const double saved = noise / (2 * (samples + noise));
  const double added = samples / (samples + noise);
  return fmt::format(
      "the gradient noise scale is {:.4g} samples ({}), about the largest batch that is useful: at a batch of {} an "
      "update makes {:.3g} % of the progress of one without noise; a batch of {} would take {:.3g} % fewer iterations "
      "and "
      "{:.3g} % more samples to the same loss (McCandlish et al. 2018)",
      noise, updates, batch, 100 * samples / (samples + noise), 2 * batch, 100 * saved, 100 * added);
}

}  // namespace moka
