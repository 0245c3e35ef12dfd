// TernGrad (Wen et al., NeurIPS 2017): each element becomes -s, 0 or s with s = max |g| of the gradient, s with
// probability |g| / s, so that the mean is g; elements are limited to `clip` standard deviations first, which is the
// method's only bias. 2 bits an element. Without error feedback: what is sent is g in the mean.
#include <cmath>
#include <limits>

#include "comm/compression/bits.h"
#include "comm/compression/compressor.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kPerWord = 16;

class TernGradCompressor : public GradientCompressor {
 public:
  TernGradCompressor(const CompressionOptions& options, int64_t count, const CompressorPlace& place)
      : seed_(options.seed), clip_(options.clip), count_(count), place_(place) {}

  int64_t PayloadFloats(int, int64_t) const override { return 1 + CeilDiv(count_, kPerWord).value(); }

  void Encode(int, int64_t step, std::span<const float> gradient, std::span<float> payload) override {
    const bool is_finite = AllFinite(gradient);
    const float limit = is_finite ? Limit(gradient) : std::numeric_limits<float>::quiet_NaN();
    payload[0] = limit;
    const RoundingWords words(seed_, place_.tensor, place_.rank, step);
    const float inverse = is_finite && limit > 0 ? 1 / limit : 0;
    for (int64_t begin = 0, word = 1; begin < count_; begin += kPerWord, ++word) {
      uint32_t codes = 0;
      const int64_t end = std::min(begin + kPerWord, count_);
      std::array<uint32_t, 4> random{};
      for (int64_t i = begin; is_finite && i < end; ++i) {
        if (i % 4 == 0) random = words.Four(i / 4);
        const float g = gradient[static_cast<size_t>(i)];
        const bool is_sent = UnitFloat(random[static_cast<size_t>(i % 4)]) < std::abs(g) * inverse;
        const uint32_t code = is_sent ? (g < 0 ? 2U : 1U) : 0U;
        codes |= code << static_cast<uint32_t>(2 * (i - begin));
      }
      PutWord(payload, word, codes);
    }
  }

  void AddDecoded(int64_t, std::span<const float> payload, std::span<float> sum) override {
    const float s = payload[0];
    const std::array<float, 4> values = {0 * s, s, -s, 0};  // 0 of what is not finite is not a number
    for (int64_t begin = 0, word = 1; begin < count_; begin += kPerWord, ++word) {
      const uint32_t codes = WordAt(payload, word);
      const int64_t end = std::min(begin + kPerWord, count_);
      for (int64_t i = begin; i < end; ++i) {
        sum[static_cast<size_t>(i)] += values[codes >> static_cast<uint32_t>(2 * (i - begin)) & 3U];
      }
    }
  }

 private:
  // The largest magnitude, at most `clip` standard deviations.
  float Limit(std::span<const float> gradient) const {
    float largest = 0;
    double sum = 0;
    double squares = 0;
    for (const float g : gradient) {
      largest = std::max(largest, std::abs(g));
      sum += double{g};
      squares += double{g} * double{g};
    }
    if (clip_ == 0) return largest;
    const auto count = static_cast<double>(count_);
    const double mean = sum / count;
    const double sigma = std::sqrt(std::max(squares / count - mean * mean, 0.0));
    return sigma > 0 ? std::min(largest, static_cast<float>(clip_ * sigma)) : largest;
  }

  uint64_t seed_;
  double clip_;
  int64_t count_;
  CompressorPlace place_;
};

}  // namespace

CompressionMethod TernGrad() {
  return {.name = "terngrad",
          .doc = "-1, 0 or 1 times the largest magnitude, drawn so that the mean is the gradient: 2 bits an element",
          .payload = [](const CompressionOptions&,
                        const Shape& shape) { return 1 + CeilDiv(shape.Count(), kPerWord).value(); },
          .check = [](const CompressionOptions& options) -> CompressionFault {
            if (options.clip >= 0) return {};
            return {"clip", StrCat("clip is ", options.clip, ", below 0")};
          },
          .make = [](const CompressionOptions& options, const Shape& shape,
                     const CompressorPlace& place) -> std::unique_ptr<GradientCompressor> {
            return std::make_unique<TernGradCompressor>(options, shape.Count(), place);
          }};
}

}  // namespace moka
