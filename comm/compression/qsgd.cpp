// QSGD (Alistarh et al., NeurIPS 2017): an element v becomes |v|_2 sign(v) l / s with l one of the two levels beside
// s |v_i| / |v|_2, drawn so that the mean is v. Norms are of blocks of 512 elements ("buckets" in the paper), which
// keeps the variance at min(512 / s^2, sqrt(512) / s) of the squared norm however large the gradient is. Levels are
// packed in as many bits as they need. Without error feedback: what is sent is v in the mean.
#include <bit>
#include <cmath>
#include <limits>

#include "comm/compression/bits.h"
#include "comm/compression/compressor.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kBlock = 512;

struct Packing {
  explicit Packing(int levels)
      : bits(std::bit_width(static_cast<uint32_t>(2 * levels))), per_word(32 / bits), mask((1U << bits) - 1U) {}
  uint32_t bits;
  int64_t per_word;
  uint32_t mask;
};

int64_t Payload(int levels, int64_t count) {
  return CeilDiv(count, kBlock).value() + CeilDiv(count, Packing(levels).per_word).value();
}

class QsgdCompressor : public GradientCompressor {
 public:
  QsgdCompressor(const CompressionOptions& options, int64_t count, const CompressorPlace& place)
      : seed_(options.seed),
        levels_(options.levels),
        packing_(options.levels),
        count_(count),
        blocks_(CeilDiv(count, kBlock).value()),
        place_(place) {}

  int64_t PayloadFloats(int, int64_t) const override { return Payload(levels_, count_); }

  void Encode(int, int64_t step, std::span<const float> gradient, std::span<float> payload) override {
    const bool is_finite = AllFinite(gradient);
    const RoundingWords words(seed_, place_.tensor, place_.rank, step);
    uint32_t packed = 0;
    uint32_t shift = 0;
    int64_t word = blocks_;
    for (int64_t block = 0; block < blocks_; ++block) {
      const int64_t begin = block * kBlock;
      const int64_t end = std::min(begin + kBlock, count_);
      const float norm = is_finite ? Norm(gradient, begin, end) : std::numeric_limits<float>::quiet_NaN();
      payload[static_cast<size_t>(block)] = norm;
      const float scale = norm > 0 ? static_cast<float>(levels_) / norm : 0;
      std::array<uint32_t, 4> random{};
      for (int64_t i = begin; i < end; ++i) {
        if (i % 4 == 0) random = words.Four(i / 4);
        int32_t level = 0;
        if (scale > 0) {
          const float g = gradient[static_cast<size_t>(i)];
          const float exact = std::min(std::abs(g) * scale, static_cast<float>(levels_));
          level = static_cast<int32_t>(exact);
          level += UnitFloat(random[static_cast<size_t>(i % 4)]) < exact - static_cast<float>(level) ? 1 : 0;
          if (g < 0) level = -level;
        }
        packed |= static_cast<uint32_t>(level + levels_) << shift;
        shift += packing_.bits;
        if (shift + packing_.bits > 32 || i + 1 == count_) {
          PutWord(payload, word++, packed);
          packed = shift = 0;
        }
      }
    }
  }

  void AddDecoded(int64_t, std::span<const float> payload, std::span<float> sum) override {
    uint32_t packed = 0;
    int64_t left = 0;
    int64_t word = blocks_;
    for (int64_t block = 0; block < blocks_; ++block) {
      const float unit = payload[static_cast<size_t>(block)] / static_cast<float>(levels_);
      const int64_t end = std::min((block + 1) * kBlock, count_);
      for (int64_t i = block * kBlock; i < end; ++i) {
        if (left == 0) {
          packed = WordAt(payload, word++);
          left = packing_.per_word;
        }
        const int32_t level = static_cast<int32_t>(packed & packing_.mask) - levels_;
        sum[static_cast<size_t>(i)] += unit * static_cast<float>(level);
        packed >>= packing_.bits;
        --left;
      }
    }
  }

 private:
  static float Norm(std::span<const float> gradient, int64_t begin, int64_t end) {
    double squares = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double g = gradient[static_cast<size_t>(i)];
      squares += g * g;
    }
    return static_cast<float>(std::sqrt(squares));
  }

  uint64_t seed_;
  int32_t levels_;
  Packing packing_;
  int64_t count_;
  int64_t blocks_;
  CompressorPlace place_;
};

}  // namespace

CompressionMethod Qsgd() {
  return {.name = "qsgd",
          .doc = "one of `levels` steps of the norm of 512 elements, drawn so that the mean is the gradient",
          .payload = [](const CompressionOptions& options,
                        const Shape& shape) { return Payload(options.levels, shape.Count()); },
          .check = [](const CompressionOptions& options) -> CompressionFault {
            if (options.levels >= 1 && options.levels <= 32767) return {};
            return {"levels", StrCat("levels is ", options.levels, ", and must be 1 to 32767")};
          },
          .make = [](const CompressionOptions& options, const Shape& shape,
                     const CompressorPlace& place) -> std::unique_ptr<GradientCompressor> {
            return std::make_unique<QsgdCompressor>(options, shape.Count(), place);
          }};
}

}  // namespace moka
