// signSGD with error feedback (Karimireddy et al., ICML 2019): p = g + e is sent as its signs, one bit each, and the
// mean magnitude s = |p|_1 / d; e = p - s sign(p).
#include <cmath>
#include <limits>

#include "comm/compression/bits.h"
#include "comm/compression/compressor.h"
#include "core/size.h"
#include "core/vector_clones.h"

namespace moka {
namespace {

constexpr int64_t kBits = 32;

MOKA_VECTOR_CLONES double AddAndMean(const float* g, int64_t count, float* e) {
  double sum = 0;
  constexpr int64_t kBlock = 256;  // float sums of a block lose nothing that matters
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = begin + kBlock < count ? begin + kBlock : count;
    float lanes[8] = {};
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (int64_t k = 0; k < 8; ++k) {
        e[i + k] += g[i + k];
        lanes[k] += std::abs(e[i + k]);
      }
    }
    for (; i < end; ++i) {
      e[i] += g[i];
      lanes[0] += std::abs(e[i]);
    }
    for (const float lane : lanes) sum += double{lane};
  }
  return sum / static_cast<double>(count);
}

class SignCompressor : public GradientCompressor {
 public:
  explicit SignCompressor(int64_t count) : residual_(static_cast<size_t>(count)) {}

  int64_t PayloadFloats(int, int64_t) const override {
    return 1 + CeilDiv(static_cast<int64_t>(residual_.size()), kBits).value();
  }

  void Encode(int, int64_t, std::span<const float> gradient, std::span<float> payload) override {
    if (!AllFinite(gradient)) {
      payload[0] = std::numeric_limits<float>::quiet_NaN();
      return;
    }
    const auto count = static_cast<int64_t>(residual_.size());
    const auto scale = static_cast<float>(AddAndMean(gradient.data(), count, residual_.data()));
    payload[0] = scale;
    for (int64_t begin = 0, word = 1; begin < count; begin += kBits, ++word) {
      const int64_t end = std::min(begin + kBits, count);
      uint32_t bits = 0;
      for (int64_t i = begin; i < end; ++i) {
        float& e = residual_[static_cast<size_t>(i)];
        const bool is_negative = e < 0;
        bits |= uint32_t{is_negative} << static_cast<uint32_t>(i - begin);
        e -= is_negative ? -scale : scale;
      }
      PutWord(payload, word, bits);
    }
  }

  void AddDecoded(int64_t, std::span<const float> payload, std::span<float> sum) override {
    const float scale = payload[0];
    const auto count = static_cast<int64_t>(sum.size());
    for (int64_t begin = 0, word = 1; begin < count; begin += kBits, ++word) {
      const int64_t end = std::min(begin + kBits, count);
      const uint32_t bits = WordAt(payload, word);
      for (int64_t i = begin; i < end; ++i) {
        const bool is_negative = (bits >> static_cast<uint32_t>(i - begin) & 1U) != 0;
        sum[static_cast<size_t>(i)] += is_negative ? -scale : scale;
      }
    }
  }

  std::vector<CompressorState> States() override { return {{"residual", residual_}}; }

 private:
  std::vector<float> residual_;  // e
};

}  // namespace

CompressionMethod SignSgd() {
  return {.name = "sign",
          .doc = "signs times the mean magnitude, with error feedback: 1 bit an element",
          .payload = [](const CompressionOptions&,
                        const Shape& shape) { return 1 + CeilDiv(shape.Count(), kBits).value(); },
          .check = [](const CompressionOptions&) { return CompressionFault{}; },
          .make = [](const CompressionOptions&, const Shape& shape, const CompressorPlace&)
              -> std::unique_ptr<GradientCompressor> { return std::make_unique<SignCompressor>(shape.Count()); }};
}

}  // namespace moka
