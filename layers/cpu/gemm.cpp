#include "layers/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"

namespace moka::gemm {
namespace {

// Floats of packed b that stay in the second level of cache beside a's and c's lines, and of packed a that stay in a
// share of the third.
constexpr int64_t kPackedB = 160 * 1024;
constexpr int64_t kPackedA = 1024 * 1024;
constexpr int64_t kLongestDepth = 1536;

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundedUp(int64_t a, int64_t b) { return Ceil(a, b) * b; }
// Part i of n items cut into `parts`, in units: where it begins.
int64_t PartBegin(int64_t n, int64_t unit, int parts, int64_t i) {
  return std::min(n, Ceil(n, unit) * i / parts * unit);
}

// The matrix from element (i, j) on.
Matrix From(const Matrix& m, int64_t i, int64_t j) {
  return {m.data + i * m.row_stride + j * m.column_stride, m.row_stride, m.column_stride};
}

// One part's share of the product: its rows of a, columns of b and place in y.
class Part {
 public:
  Part(const Plan& plan, const Matrix& a, const Matrix& b, const float* bias, float* y, float* scratch)
      : plan_(plan),
        a_(a),
        b_(b),
        bias_(bias),
        y_(y),
        packed_a_(scratch),
        packed_b_(scratch + plan.rows * plan.depth) {}

  void Run(int64_t row_begin, int64_t row_end, int64_t column_begin, int64_t column_end) {
    const Product& p = plan_.product;
    for (int64_t i = row_begin; i < row_end; i += plan_.rows) {
      rows_ = std::min(plan_.rows, row_end - i);
      for (int64_t k = 0; k < p.k; k += plan_.depth) {
        depth_ = std::min(plan_.depth, p.k - k);
        is_first_ = k == 0;
        is_last_ = k + depth_ == p.k;
        PackA(i, k);
        for (int64_t j = column_begin; j < column_end; j += plan_.columns) {
          columns_ = std::min(plan_.columns, column_end - j);
          PackB(k, j);
          Multiply(i, j);
        }
      }
    }
  }

 private:
  // Tiles as even as can be, of rows in fours.
  int64_t TileCount() const { return Ceil(rows_, plan_.tiles->rows / 4 * 4); }
  int64_t TileBegin(int64_t tile) const { return PartBegin(rows_, 4, static_cast<int>(TileCount()), tile); }

  void PackA(int64_t i, int64_t k) {
    const int64_t count = TileCount();
    if (a_.row_stride == 1) {
      // In groups, for long runs through memory.
      constexpr int64_t kGroup = 64;
      int64_t begins[kGroup + 1];
      for (int64_t tile = 0; tile < count; tile += kGroup) {
        const int64_t tiles = std::min(kGroup, count - tile);
        const int64_t first = TileBegin(tile);
        for (int64_t t = 0; t <= tiles; ++t) begins[t] = TileBegin(tile + t) - first;
        PackTiles(From(a_, i + first, k), depth_, begins, tiles, packed_a_ + first * depth_);
      }
      return;
    }
    for (int64_t tile = 0; tile < count; ++tile) {
      const int64_t begin = TileBegin(tile);
      PackRows(From(a_, i + begin, k), TileBegin(tile + 1) - begin, depth_, packed_a_ + begin * depth_);
    }
  }

  void PackB(int64_t k, int64_t j) { PackPanels(From(b_, k, j), depth_, columns_, *plan_.tiles, packed_b_); }

  void Multiply(int64_t i, int64_t j) {
    const int64_t width = plan_.tiles->columns;
    for (int64_t tile = 0; tile < TileCount(); ++tile) {
      const int64_t begin = TileBegin(tile);
      const int64_t rows = TileBegin(tile + 1) - begin;
      for (int64_t at = 0; at < columns_; at += width) {
        TileArgs args{.depth = depth_,
                      .a = packed_a_ + begin * depth_,
                      .b = packed_b_ + at * depth_,
                      .c = y_ + (i + begin) * plan_.product.n + j + at,
                      .c_stride = plan_.product.n,
                      .bias = is_first_ && bias_ != nullptr ? bias_ + j + at : nullptr,
                      .adds = !is_first_,
                      .relu = is_last_ && plan_.product.relu};
        if (columns_ - at >= width) {
          plan_.tiles->run(args, static_cast<int>(rows));
        } else {
          Narrow(args, rows, columns_ - at);
        }
      }
    }
  }

  // A tile with fewer columns than the registers have, by way of a whole one.
  void Narrow(TileArgs args, int64_t rows, int64_t columns) const {
    alignas(64) float whole[16 * 32] = {};
    alignas(64) float bias[32] = {};
    const int64_t width = plan_.tiles->columns;
    float* y = args.c;
    if (args.bias != nullptr) args.bias = static_cast<const float*>(std::memcpy(bias, args.bias, Bytes(columns)));
    for (int64_t r = 0; args.adds && r < rows; ++r)
      std::memcpy(whole + r * width, y + r * args.c_stride, Bytes(columns));
    args.c = whole;
    args.c_stride = width;
    plan_.tiles->run(args, static_cast<int>(rows));
    for (int64_t r = 0; r < rows; ++r) std::memcpy(y + r * plan_.product.n, whole + r * width, Bytes(columns));
  }

  static size_t Bytes(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

  const Plan& plan_;
  Matrix a_;
  Matrix b_;
  const float* bias_;
  float* y_;
  float* packed_a_;
  float* packed_b_;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t depth_ = 0;
  bool is_first_ = true;
  bool is_last_ = true;
};

}  // namespace

const Tiles& BestTiles() {
  if (const Tiles* tiles = Avx512Tiles()) return *tiles;
  if (const Tiles* tiles = Avx2Tiles()) return *tiles;
  return PortableTiles();
}

Plan MakePlan(const Product& product, const Tiles& tiles) {
  Plan plan{.product = product, .tiles = &tiles};
  plan.cuts_rows = product.m > product.n;
  const int64_t unit = plan.cuts_rows ? tiles.rows : tiles.columns;
  const int64_t longer = std::max(product.m, product.n);
  // A part of less than a million multiplications is done sooner than a thread is woken.
  const int64_t worth = std::max<int64_t>(1, product.m * product.n * product.k / (1 << 20));
  plan.parts = static_cast<int>(std::min({int64_t{ThreadCount()}, Ceil(longer, unit), worth}));
  const int64_t part = RoundedUp(Ceil(longer, plan.parts), unit);
  const int64_t most_rows = plan.cuts_rows ? part : product.m;
  const int64_t most_columns = RoundedUp(plan.cuts_rows ? product.n : part, tiles.columns);
  plan.depth = Ceil(product.k, Ceil(product.k, kLongestDepth));
  plan.rows = Ceil(most_rows, Ceil(most_rows, std::max<int64_t>(tiles.rows, kPackedA / plan.depth)));
  plan.columns = std::min(most_columns, std::max<int64_t>(1, kPackedB / plan.depth / tiles.columns) * tiles.columns);
  plan.part_floats = RoundedUp(plan.depth * (plan.rows + plan.columns), 16);
  return plan;
}

void Run(const Plan& plan, const Matrix& a, const Matrix& b, const float* bias, float* y, float* scratch) {
  ParallelFor(plan.parts, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      Part part(plan, a, b, bias, y, scratch + i * plan.part_floats);
      const auto cut = [&](int64_t n, int64_t unit, int64_t at) { return PartBegin(n, unit, plan.parts, at); };
      if (plan.cuts_rows) {
        part.Run(cut(plan.product.m, plan.tiles->rows, i), cut(plan.product.m, plan.tiles->rows, i + 1), 0,
                 plan.product.n);
      } else {
        part.Run(0, plan.product.m, cut(plan.product.n, plan.tiles->columns, i),
                 cut(plan.product.n, plan.tiles->columns, i + 1));
      }
    }
  });
}

}  // namespace moka::gemm
