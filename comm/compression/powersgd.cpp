// PowerSGD (Vogels, Karimireddy & Jaggi, NeurIPS 2019): a gradient as a matrix M of [rows, columns] (the first
// dimension, and the others together) crosses as a product of two of rank r, one step of subspace iteration that goes
// on from the last iteration's Q:
//
//   M = g + e;  P = M Q;  P summed over the ranks, made orthonormal (Gram-Schmidt);  Q = M^T P;  Q summed
//   sum of all = P Q^T;  e = M - P Q^T / ranks
//
// Both sums are all-reduces of few floats: P and Q are linear in M. A column of P that has nothing of its own becomes
// zero, and the Q of the next iteration gets a random one in its place, the same on all ranks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/compression/bits.h"
#include "comm/compression/compressor.h"
#include "core/text.h"
#include "core/vector_clones.h"

namespace moka {
namespace {

struct Matrix {
  explicit Matrix(const Shape& shape)
      : rows(shape.rank() == 0 ? 1 : shape[0]), columns(rows == 0 ? 0 : shape.Count() / rows) {}
  int64_t rows;
  int64_t columns;
};

MOKA_VECTOR_CLONES float Dot(const float* a, const float* b, int64_t count) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += a[i + k] * b[i + k];
  }
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

MOKA_VECTOR_CLONES void AddTimes(float factor, const float* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

class PowerSgdCompressor : public GradientCompressor {
 public:
  PowerSgdCompressor(const CompressionOptions& options, const Shape& shape, const CompressorPlace& place)
      : seed_(options.seed),
        rank_(options.rank),
        matrix_(shape),
        place_(place),
        residual_(static_cast<size_t>(shape.Count())),
        q_(static_cast<size_t>(rank_ * matrix_.columns)),
        p_(static_cast<size_t>(rank_ * matrix_.rows)) {
    for (int64_t k = 0; k < rank_; ++k) Draw(k, 0);
  }

  int64_t PayloadFloats(int round, int64_t) const override {
    return rank_ * (round == 0 ? matrix_.rows : matrix_.columns);
  }

  void Encode(int round, int64_t, std::span<const float> input, std::span<float> payload) override {
    const int64_t columns = matrix_.columns;
    if (round == 0) {
      if (!AllFinite(input)) {
        std::ranges::fill(payload, std::numeric_limits<float>::quiet_NaN());
        return;
      }
      AddTimes(1, input.data(), static_cast<int64_t>(input.size()), residual_.data());
      for (int64_t i = 0; i < matrix_.rows; ++i) {
        for (int64_t k = 0; k < rank_; ++k) {
          payload[static_cast<size_t>(k * matrix_.rows + i)] =
              Dot(residual_.data() + i * columns, q_.data() + k * columns, columns);
        }
      }
      return;
    }
    std::ranges::copy(input, p_.begin());
    if (!AllFinite(p_)) {
      std::ranges::fill(payload, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    Orthonormalize();
    std::ranges::fill(payload, 0.0F);
    for (int64_t i = 0; i < matrix_.rows; ++i) {
      for (int64_t k = 0; k < rank_; ++k) {
        AddTimes(p_[static_cast<size_t>(k * matrix_.rows + i)], residual_.data() + i * columns, columns,
                 payload.data() + k * columns);
      }
    }
  }

  void AddDecoded(int64_t step, std::span<const float> payload, std::span<float> sum) override {
    if (!AllFinite(payload)) {  // the states stay
      std::ranges::fill(sum, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    std::ranges::copy(payload, q_.begin());
    const int64_t columns = matrix_.columns;
    const float part = -1.0F / static_cast<float>(place_.ranks);
    for (int64_t i = 0; i < matrix_.rows; ++i) {
      for (int64_t k = 0; k < rank_; ++k) {
        const float p = p_[static_cast<size_t>(k * matrix_.rows + i)];
        AddTimes(p, q_.data() + k * columns, columns, sum.data() + i * columns);
        AddTimes(p * part, q_.data() + k * columns, columns, residual_.data() + i * columns);
      }
    }
    for (int64_t k = 0; k < rank_; ++k) {
      const float* q = q_.data() + k * columns;
      if (std::all_of(q, q + columns, [](float x) { return x == 0; })) Draw(k, step + 1);
    }
  }

  std::vector<CompressorState> States() override { return {{"residual", residual_}, {"q", q_}}; }

 private:
  // Draws column k of Q anew, normally distributed, by a stream that belongs to no process, so that all have the same.
  void Draw(int64_t k, int64_t step) {
    constexpr int kNoRank = -1;
    const RoundingWords words(seed_, place_.tensor, kNoRank, step);
    for (int64_t i = 0; i < matrix_.columns; ++i) {
      const std::array<uint32_t, 4> random = words.Four(k * matrix_.columns + i);
      const float radius = std::sqrt(-2 * std::log(1 - UnitFloat(random[0])));
      q_[static_cast<size_t>(k * matrix_.columns + i)] = radius * std::cos(6.2831853F * UnitFloat(random[1]));
    }
  }

  // Modified Gram-Schmidt over the columns of P, which lie one behind the other.
  void Orthonormalize() {
    constexpr float kNothing = 1e-5F;  // of a column's length: below it is what rounding left
    const int64_t rows = matrix_.rows;
    for (int64_t k = 0; k < rank_; ++k) {
      float* column = p_.data() + k * rows;
      const float before = std::sqrt(Dot(column, column, rows));
      for (int64_t j = 0; j < k; ++j) {
        const float* other = p_.data() + j * rows;
        AddTimes(-Dot(other, column, rows), other, rows, column);
      }
      const float after = std::sqrt(Dot(column, column, rows));
      const bool is_new = after > kNothing * before && after > 1e-30F;
      for (int64_t i = 0; i < rows; ++i) column[i] = is_new ? column[i] / after : 0;
    }
  }

  uint64_t seed_;
  int64_t rank_;  // r, of the product; no process
  Matrix matrix_;
  CompressorPlace place_;
  std::vector<float> residual_;  // e; M while an iteration is under way
  std::vector<float> q_;         // [rank, columns]
  std::vector<float> p_;         // [rank, rows]
};

}  // namespace

CompressionMethod PowerSgd() {
  return {.name = "powersgd",
          .doc = "products of two matrices of rank `rank`, with error feedback, by two all-reduces (PowerSGD)",
          .rounds = 2,
          .sums = true,
          .payload =
              [](const CompressionOptions& options, const Shape& shape) {
                const Matrix matrix(shape);
                return options.rank * (matrix.rows + matrix.columns);
              },
          .check = [](const CompressionOptions& options) -> CompressionFault {
            if (options.rank >= 1 && options.rank <= 256) return {};
            return {"rank", StrCat("rank is ", options.rank, ", and must be 1 to 256")};
          },
          .make = [](const CompressionOptions& options, const Shape& shape,
                     const CompressorPlace& place) -> std::unique_ptr<GradientCompressor> {
            return std::make_unique<PowerSgdCompressor>(options, shape, place);
          }};
}

}  // namespace moka
