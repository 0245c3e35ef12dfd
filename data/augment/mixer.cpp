// The ratio is drawn from Beta(alpha, alpha) as two gamma variables (Marsaglia and Tsang, 2000).
#include "data/augment/mixer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"

namespace moka {
namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; below shape 1 by their section 6.
double DrawGamma(double shape, RandomStream& random) {
  if (shape < 1) return DrawGamma(shape + 1, random) * std::pow(1 - random.Uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.Normal(0, 1);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(1 - random.Uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

double DrawBeta(double alpha, RandomStream& random) {
  const double a = DrawGamma(alpha, random);
  const double b = DrawGamma(alpha, random);
  // Very small alphas underflow: the limit is a fair coin.
  return a + b > 0 ? a / (a + b) : static_cast<double>(random.Bits() & 1U);
}

}  // namespace

MixPlan Mixer::PlanOf(int64_t first_sample, int64_t batch, const Shape& sample) const {
  MixPlan plan;
  if (batch < 2) return plan;
  RandomStream random(seed_, static_cast<uint64_t>(first_sample), static_cast<uint64_t>(rank_) << 40U);
  plan.partner = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(batch - 1)));
  const bool has_both = mixing_.mixup_alpha() > 0 && mixing_.cutmix_alpha() > 0;
  const bool cuts = has_both ? (random.Bits() & 1U) != 0 : mixing_.cutmix_alpha() > 0;
  plan.part = DrawBeta(double{cuts ? mixing_.cutmix_alpha() : mixing_.mixup_alpha()}, random);
  if (!cuts) return plan;
  const int64_t height = sample[1];
  const int64_t width = sample[2];
  const auto y = static_cast<int64_t>(random.Below(static_cast<uint64_t>(height)));
  const auto x = static_cast<int64_t>(random.Below(static_cast<uint64_t>(width)));
  const double half = 0.5 * std::sqrt(1 - plan.part);
  const auto half_height = static_cast<int64_t>(half * static_cast<double>(height));
  const auto half_width = static_cast<int64_t>(half * static_cast<double>(width));
  plan.window.x = std::max<int64_t>(x - half_width, 0);
  plan.window.y = std::max<int64_t>(y - half_height, 0);
  plan.window.width = std::min(x + half_width, width) - plan.window.x;
  plan.window.height = std::min(y + half_height, height) - plan.window.y;
  // The rectangle was cut off at the borders: the parts are those of its pixels.
  const auto taken = static_cast<double>(plan.window.width * plan.window.height);
  plan.part = 1 - taken / static_cast<double>(width * height);
  if (taken == 0) plan = {};
  return plan;
}

void Mixer::MixData(const MixPlan& plan, const Shape& batch, std::span<const float> from, std::span<float> to) {
  const int64_t count = batch.Count(1, batch.rank());
  const int64_t plane = batch[2] * batch[3];
  const auto part = static_cast<float>(plan.part);
  for (int64_t n = 0; n < batch[0]; ++n) {
    const float* own = from.data() + n * count;
    const float* other = from.data() + (n + plan.partner) % batch[0] * count;
    float* target = to.data() + n * count;
    if (plan.window.width == 0) {
      for (int64_t i = 0; i < count; ++i) target[i] = part * own[i] + (1 - part) * other[i];
      continue;
    }
    std::copy_n(own, count, target);
    for (int64_t c = 0; c < batch[1]; ++c) {
      for (int64_t y = plan.window.y; y < plan.window.y + plan.window.height; ++y) {
        const int64_t at = c * plane + y * batch[3] + plan.window.x;
        std::copy_n(other + at, plan.window.width, target + at);
      }
    }
  }
}

void Mixer::MixLabels(const MixPlan& plan, std::span<const float> labels, std::span<float> parts) const {
  const auto classes = static_cast<size_t>(mixing_.classes());
  std::ranges::fill(parts, 0.0F);
  const auto class_of = [&](size_t n) {
    const float label = labels[n];
    if (label >= 0 && label < static_cast<float>(classes) && label == std::floor(label)) {
      return static_cast<size_t>(label);
    }
    throw Error(ErrorKind::kBadData, {}, StrCat("label ", label, " is none of the ", classes, " classes of mixing"),
                "set transform_param.mixing.classes");
  };
  for (size_t n = 0; n < labels.size(); ++n) {
    const size_t other = (n + static_cast<size_t>(plan.partner)) % labels.size();
    parts[n * classes + class_of(n)] += static_cast<float>(plan.part);
    parts[n * classes + class_of(other)] += static_cast<float>(1 - plan.part);
  }
}

}  // namespace moka
