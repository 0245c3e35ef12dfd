// Deep gradient compression (Lin et al., ICLR 2018): the largest elements alone are sent; the others add up until they
// are among them. The optimiser's momentum is applied before that (momentum correction), and ends where an element is
// sent (factor masking):
//
//   u = m u + g;  v = v + u;  send (index, v) of the k largest |v|;  u = 0 and v = 0 there
//
// k is the density's part of the elements: exact, the first of equal ones, so payloads have one size on all ranks and
// are the same whenever they are made again. Over the warm-up the density falls from 0.25 in five steps of one ratio
// (0.25, 0.063, 0.016, 0.004, 0.001 as in the paper).
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "comm/compression/bits.h"
#include "comm/compression/compressor.h"
#include "core/text.h"
#include "core/vector_clones.h"

namespace moka {
namespace {

constexpr double kFirstDensity = 0.25;
constexpr int64_t kStages = 5;

int64_t Sent(double density, int64_t count) {
  return std::clamp<int64_t>(std::llround(std::ceil(density * static_cast<double>(count))), 1, count);
}

MOKA_VECTOR_CLONES void Correct(const float* g, int64_t count, float momentum, float* u, float* v, float* magnitudes) {
  for (int64_t i = 0; i < count; ++i) {
    u[i] = momentum * u[i] + g[i];
    v[i] += u[i];
    magnitudes[i] = std::abs(v[i]);
  }
}

class DgcCompressor : public GradientCompressor {
 public:
  DgcCompressor(const CompressionOptions& options, int64_t count)
      : options_(options),
        u_(static_cast<size_t>(count)),
        v_(static_cast<size_t>(count)),
        magnitudes_(static_cast<size_t>(count)) {}

  int64_t PayloadFloats(int, int64_t step) const override { return 2 * Count(step); }

  void Encode(int, int64_t step, std::span<const float> gradient, std::span<float> payload) override {
    const int64_t k = Count(step);
    if (!AllFinite(gradient)) {
      for (int64_t i = 0; i < k; ++i) {
        PutWord(payload, i, static_cast<uint32_t>(i));
        payload[static_cast<size_t>(k + i)] = std::numeric_limits<float>::quiet_NaN();
      }
      return;
    }
    Correct(gradient.data(), static_cast<int64_t>(gradient.size()), static_cast<float>(options_.momentum), u_.data(),
            v_.data(), magnitudes_.data());
    const auto last = magnitudes_.begin() + (k - 1);
    std::nth_element(magnitudes_.begin(), last, magnitudes_.end(), std::greater<>());
    const float least = *last;
    // All above it, and as many of those equal to it as there is room for.
    int64_t equal = k - std::count_if(magnitudes_.begin(), last, [&](float m) { return m > least; });
    int64_t at = 0;
    for (size_t i = 0; i < v_.size() && at < k; ++i) {
      const float magnitude = std::abs(v_[i]);
      if (magnitude < least || (magnitude == least && equal-- <= 0)) continue;
      PutWord(payload, at, static_cast<uint32_t>(i));
      payload[static_cast<size_t>(k + at)] = v_[i];
      u_[i] = v_[i] = 0;
      ++at;
    }
  }

  void AddDecoded(int64_t step, std::span<const float> payload, std::span<float> sum) override {
    const int64_t k = Count(step);
    for (int64_t i = 0; i < k; ++i) {
      const uint32_t index = WordAt(payload, i);
      if (index < sum.size()) sum[index] += payload[static_cast<size_t>(k + i)];
    }
  }

  std::vector<CompressorState> States() override { return {{"momentum", u_}, {"residual", v_}}; }

 private:
  int64_t Count(int64_t step) const { return Sent(DgcDensity(options_, step), static_cast<int64_t>(v_.size())); }

  CompressionOptions options_;
  std::vector<float> u_;
  std::vector<float> v_;
  std::vector<float> magnitudes_;
};

}  // namespace

double DgcDensity(const CompressionOptions& options, int64_t step) {
  if (step >= options.warmup_iter || options.density >= kFirstDensity) return options.density;
  const int64_t stage = kStages * step / options.warmup_iter;
  return kFirstDensity *
         std::pow(options.density / kFirstDensity, static_cast<double>(stage) / static_cast<double>(kStages - 1));
}

CompressionMethod Dgc() {
  return {.name = "dgc",
          .doc = "the largest elements, 8 bytes each; the others and their momentum add up until they are (DGC)",
          .payload = [](const CompressionOptions& options,
                        const Shape& shape) { return 2 * Sent(options.density, shape.Count()); },
          .check = [](const CompressionOptions& options) -> CompressionFault {
            if (!(options.density > 0 && options.density <= kFirstDensity)) {
              return {"density",
                      StrCat("density is ", options.density, ", and must be above 0 and at most ", kFirstDensity)};
            }
            if (options.warmup_iter >= 0) return {};
            return {"warmup_iter", StrCat("warmup_iter is ", options.warmup_iter, ", below 0")};
          },
          .make = [](const CompressionOptions& options, const Shape& shape,
                     const CompressorPlace&) -> std::unique_ptr<GradientCompressor> {
            return std::make_unique<DgcCompressor>(options, shape.Count());
          }};
}

}  // namespace moka
