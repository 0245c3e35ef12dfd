#include "layers/cpu/gemm.h"

#include <algorithm>
#include <cstring>

#include "core/parallel.h"

namespace moka::gemm {
namespace {

// Floats of packed b that stay in the second level of cache beside a's and c's lines, and of packed a that stay in a
// share of the third. A tile's rows of a of this depth stay in the first.
constexpr int64_t kPackedB = 160 * 1024;
constexpr int64_t kPackedA = 512 * 1024;
constexpr int64_t kLongestDepth = 320;

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
        packed_b_(scratch + RoundedUp(plan.kept_rows * plan.depth, 16)) {}

  void Run(int64_t row_begin, int64_t row_end, int64_t column_begin, int64_t column_end) {
    const Product& p = plan_.product;
    for (int64_t i = row_begin; i < row_end; i += plan_.rows) {
      rows_ = std::min(plan_.rows, row_end - i);
      for (int64_t k = 0; k < p.k; k += plan_.depth) {
        depth_ = std::min(plan_.depth, p.k - k);
        is_first_ = k == 0;
        is_last_ = k + depth_ == p.k;
        for (int64_t j = column_begin; j < column_end; j += plan_.columns) {
          columns_ = std::min(plan_.columns, column_end - j);
          Multiply(i, k, j, j == column_begin);
        }
      }
    }
  }

 private:
  // Tiles as even as can be.
  int64_t TileCount() const { return Ceil(rows_, plan_.tiles->rows); }
  int64_t TileBegin(int64_t tile) const { return PartBegin(rows_, 1, static_cast<int>(TileCount()), tile); }

  // Operands are packed right before their first use: a's by tiles of rows when the first columns come, b's by panels
  // when the first tile does.
  void Multiply(int64_t i, int64_t k, int64_t j, bool packs_a) {
    const int64_t width = plan_.tiles->columns;
    const int64_t tiles = TileCount();
    const int64_t panels = Ceil(columns_, width);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t begin = TileBegin(tile);
      const int64_t rows = TileBegin(tile + 1) - begin;
      const int64_t next_rows = tile + 1 < tiles ? TileBegin(tile + 2) - begin - rows : 0;
      float* a = packed_a_ + (plan_.kept_rows < rows_ ? 0 : begin * depth_);
      if (packs_a) PackRows(From(a_, i + begin, k), rows, depth_, a);
      for (int64_t panel = 0; panel < panels; ++panel) {
        const int64_t at = panel * width;
        TileArgs args{.depth = depth_,
                      .a = a,
                      .b = packed_b_ + at * depth_,
                      .c = y_ + (i + begin) * plan_.product.n + j + at,
                      .c_stride = plan_.product.n,
                      .bias = is_first_ && bias_ != nullptr ? bias_ + j + at : nullptr,
                      .adds = !is_first_,
                      .relu = is_last_ && plan_.product.relu};
        if (tile == 0) {
          const int64_t columns = std::min(width, columns_ - at);
          PackPanels(From(b_, k, j + at), depth_, columns, *plan_.tiles, packed_b_ + at * depth_);
          if (panel + 1 < panels && b_.column_stride == 1) {
            args.next = From(b_, k, j + at + width).data;
            args.next_stride = b_.row_stride;
          }
        }
        if (columns_ - at >= width) {
          plan_.tiles->run(args, static_cast<int>(rows));
        } else {
          Narrow(args, rows, columns_ - at);
        }
        if (packs_a && next_rows > 0) Ask(From(a_, i + begin + rows, k), next_rows, panel, panels);
      }
    }
  }

  // Asks for share `part` of what PackRows will read, so that it comes while tiles are multiplied.
  void Ask(const Matrix& a, int64_t rows, int64_t part, int64_t parts) const {
    constexpr int64_t kLine = 16;  // floats
    const bool turned = a.row_stride == 1;
    const int64_t runs = turned ? depth_ : rows;
    const int64_t length = turned ? rows : depth_;
    const int64_t stride = turned ? a.column_stride : a.row_stride;
    const int64_t lines = Ceil(length - 1, kLine) + 1;
    for (int64_t at = runs * lines * part / parts; at < runs * lines * (part + 1) / parts; ++at) {
      __builtin_prefetch(a.data + at / lines * stride + std::min(at % lines * kLine, length - 1));
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
  plan.columns = std::min(most_columns, std::max<int64_t>(1, kPackedB / plan.depth / tiles.columns) * tiles.columns);
  plan.rows = most_rows;
  if (plan.columns < most_columns) {
    plan.rows = Ceil(most_rows, Ceil(most_rows, std::max<int64_t>(tiles.rows, kPackedA / plan.depth)));
  }
  plan.kept_rows = plan.columns < most_columns ? plan.rows : std::min<int64_t>(plan.rows, tiles.rows);
  plan.part_floats = RoundedUp(plan.depth * plan.kept_rows, 16) + RoundedUp(plan.depth * plan.columns, 16);
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
