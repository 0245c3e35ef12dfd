// Blocks and threads of a matrix product. Of the two operands, the one every thread needs whole is packed first, by
// all, unless it came packed; then threads take tiles of rows (or panels of columns) of the other as they come free,
// pack those and multiply. Who takes what does not matter to the sums.
#include "layers/kernels/cpu/matmul/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/threads/parallel.h"
#include "layers/kernels/cpu/work_queue.h"

namespace moka::gemm {
namespace {

// A tile's rows of a of this depth fill the first level of cache, this many floats of packed b a third of the second.
// Deeper blocks read and write the results less often, which counts more than the lines of a that do not stay.
constexpr int64_t kLongestDepth = 512;
constexpr int64_t kPackedB = 80 * 1024;
constexpr int64_t kLine = 16;  // floats
constexpr int64_t kGroup = 8;  // tiles or panels: packed in one go, taken at least while many are left

int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundedUp(int64_t a, int64_t b) { return Ceil(a, b) * b; }

// The matrix from element (i, j) on.
Matrix From(const Matrix& m, int64_t i, int64_t j) {
  return {m.data + i * m.row_stride + j * m.column_stride, m.row_stride, m.column_stride};
}

// The blocking is that of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", ACM TOMS 2008)
// with the operands' roles exchanged: blocks of b stay in the second level while tiles of a pass through the first.
// Panels are [k][columns] and tiles [k][rows], both read in order by the inner loop.
class Multiplication {
 public:
  Multiplication(const Plan& plan, const Matrix& a, const Matrix& b, const float* bias, float* y, float* scratch)
      : plan_(plan), p_(plan.product), a_(a), b_(b), bias_(bias), y_(y), shared_(scratch) {}

  void PackShared(int64_t begin, int64_t end) const {
    const int64_t width = plan_.tiles->columns;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t k = item / SharedPieces() * plan_.depth;
      const int64_t piece = item % SharedPieces();
      const int64_t depth = std::min(plan_.depth, p_.k - k);
      if (plan_.cuts_rows) {
        const int64_t j = piece * kGroup * width;
        plan_.tiles->pack_panels(From(b_, k, j), depth, std::min(kGroup * width, p_.n - j), SharedB(k, j, depth));
      } else {
        const int64_t tile = piece * kGroup;
        PackTiles(tile, std::min(TileCount(), tile + kGroup), k, depth, SharedA(k, TileBegin(tile), depth));
      }
    }
  }
  // Pieces of one block of k.
  int64_t SharedPieces() const {
    return plan_.cuts_rows ? Ceil(p_.n, kGroup * plan_.tiles->columns) : Ceil(TileCount(), kGroup);
  }
  // Packing is cut into pieces of kGroup panels of b, or tiles of a, which lie next to each other: a thread then reads
  // whole pages.
  int64_t SharedItems() const { return plan_.cuts_rows && p_.packed_b ? 0 : SharedPieces() * Ceil(p_.k, plan_.depth); }

  int64_t Units() const { return plan_.cuts_rows ? TileCount() : Ceil(p_.n, plan_.tiles->columns); }

  // Tiles of rows, or panels of columns, from begin to end.
  // The first block of k writes y (with the bias), later ones add to it, the last one applies the ReLU: an element's
  // additions have one order whatever thread takes its tile.
  void Multiply(int64_t begin, int64_t end, float* own) const {
    const int64_t width = plan_.tiles->columns;
    Block block;
    block.first_tile = plan_.cuts_rows ? begin : 0;
    block.last_tile = plan_.cuts_rows ? end : TileCount();
    for (block.k = 0; block.k < p_.k; block.k += plan_.depth) {
      block.depth = std::min(plan_.depth, p_.k - block.k);
      const int64_t last = plan_.cuts_rows ? p_.n : std::min(p_.n, end * width);
      for (int64_t j = plan_.cuts_rows ? 0 : begin * width; j < last; j += plan_.columns) {
        block.j = j;
        block.columns = std::min(plan_.columns, last - j);
        Multiply(block, own);
      }
    }
  }

 private:
  struct Block {
    int64_t first_tile = 0;
    int64_t last_tile = 0;
    int64_t j = 0;
    int64_t columns = 0;
    int64_t k = 0;
    int64_t depth = 0;
  };

  // Tiles as even as can be.
  // m = 15 rows with registers for 14 are two tiles of 7 and 8 rows and not of 14 and 1: a tile's time is nearly that
  // of its loads of b, which a tile of one row would not use.
  int64_t TileCount() const { return Ceil(p_.m, plan_.tiles->rows); }
  int64_t TileBegin(int64_t tile) const { return p_.m * tile / TileCount(); }
  float* SharedA(int64_t k, int64_t i, int64_t depth) const { return shared_ + k * p_.m + i * depth; }
  float* SharedB(int64_t k, int64_t j, int64_t depth) const {
    return shared_ + k * RoundedUp(p_.n, plan_.tiles->columns) + j * depth;
  }
  // The panel of b for a block of k and the columns from j on; `own` is where this thread packs it.
  const float* Panel(const Block& block, int64_t j, const float* own) const {
    if (p_.packed_b) return b_.data + j * p_.k + block.k * plan_.tiles->columns;
    return plan_.cuts_rows ? SharedB(block.k, j, block.depth) : own;
  }

  // The tiles from first to last, one after another from `to` on. Where a lies transposed, tiles next to each other
  // share lines and pages: then some steps of k of all of them are packed while the next steps' lines come.
  void PackTiles(int64_t first, int64_t last, int64_t k, int64_t depth, float* to) const {
    constexpr int64_t kSteps = 8;
    const int64_t i = TileBegin(first);
    const int64_t steps = a_.row_stride == 1 ? kSteps : depth;
    for (int64_t at = 0; at < depth; at += steps) {
      const int64_t next = std::min(steps, depth - at - steps);
      if (next > 0) Ask(From(a_, i, k + at + steps), TileBegin(last) - i, next, 0, 1);
      for (int64_t tile = first; tile < last; ++tile) {
        const int64_t row = TileBegin(tile);
        const int64_t rows = TileBegin(tile + 1) - row;
        plan_.tiles->pack_rows(From(a_, row, k + at), rows, std::min(steps, depth - at),
                               to + (row - i) * depth + at * rows);
      }
    }
  }

  // The operand that is this thread's own is packed right before its first use: a's rows a tile at a time, each asked
  // for some time before; its columns a group of tiles at a time.
  void Multiply(const Block& block, float* own) const {
    const int64_t width = plan_.tiles->columns;
    const int64_t panels = Ceil(block.columns, width);
    // The inner loop is over panels of b, which stay in the second level: a tile of a, once packed, is used for all
    // panels of the block from the first level.
    const bool packs_a = plan_.cuts_rows && block.j == 0;
    const bool packs_b = !plan_.cuts_rows && !p_.packed_b;
    const int64_t group = a_.row_stride == 1 ? kGroup : 1;
    for (int64_t tile = block.first_tile; tile < block.last_tile; ++tile) {
      const int64_t i = TileBegin(tile);
      const int64_t rows = TileBegin(tile + 1) - i;
      float* a =
          plan_.cuts_rows ? own + (i - TileBegin(block.first_tile)) * block.depth : SharedA(block.k, i, block.depth);
      if (packs_a && (tile - block.first_tile) % group == 0) {
        PackTiles(tile, std::min(tile + group, block.last_tile), block.k, block.depth, a);
      }
      for (int64_t panel = 0; panel < panels; ++panel) {
        const int64_t at = panel * width;
        TileArgs args = Args(block, i, at);
        args.a = a;
        args.b = Panel(block, block.j + at, own + at * block.depth);
        if (packs_b && tile == block.first_tile) PackOwn(block, at, own, args);
        // The other thread packed about half of a's tiles: the next one's rows come from afar.
        if (!plan_.cuts_rows && panel + 1 == panels && tile + 1 < block.last_tile) {
          args.next = a + rows * block.depth;
          args.next_stride = 2 * kLine;
          args.next_steps = Ceil(rows * block.depth, args.next_stride);
        }
        if (block.columns - at >= width) {
          plan_.tiles->run(args, static_cast<int>(rows));
        } else {
          Narrow(args, rows, block.columns - at);
        }
        if (packs_a && group == 1 && tile + 1 < block.last_tile) {
          Ask(From(a_, i + rows, block.k), TileBegin(tile + 2) - i - rows, block.depth, panel, panels);
        }
      }
    }
  }

  // y is written in place between blocks of k: kLongestDepth makes that once in 257 to 512 products an element.
  TileArgs Args(const Block& block, int64_t i, int64_t at) const {
    const bool is_first = block.k == 0;
    return {.depth = block.depth,
            .c = y_ + i * p_.n + block.j + at,
            .c_stride = p_.n,
            .bias = is_first && bias_ != nullptr ? bias_ + block.j + at : nullptr,
            .adds = !is_first,
            .relu = p_.relu && block.k + block.depth == p_.k};
  }

  void PackOwn(const Block& block, int64_t at, float* own, TileArgs& args) const {
    const int64_t width = plan_.tiles->columns;
    plan_.tiles->pack_panels(From(b_, block.k, block.j + at), block.depth, std::min(width, block.columns - at),
                             own + at * block.depth);
    if (b_.column_stride == 1 && at + width < block.columns) {
      args.next = From(b_, block.k, block.j + at + width).data;
      args.next_stride = b_.row_stride;
      args.next_steps = block.depth;
    }
  }

  // Asks for share `part` of what pack_rows will read, so that it comes while tiles are multiplied.
  static void Ask(const Matrix& a, int64_t rows, int64_t depth, int64_t part, int64_t parts) {
    const bool turned = a.row_stride == 1;
    const int64_t runs = turned ? depth : rows;
    const int64_t length = turned ? rows : depth;
    const int64_t stride = turned ? a.column_stride : a.row_stride;
    const int64_t lines = Ceil(length - 1, kLine) + 1;
    for (int64_t at = runs * lines * part / parts; at < runs * lines * (part + 1) / parts; ++at) {
      __builtin_prefetch(a.data + at / lines * stride + std::min(at % lines * kLine, length - 1));
    }
  }

  // A tile with fewer columns than the registers have, by way of a whole one.
  void Narrow(TileArgs args, int64_t rows, int64_t columns) const {
    // There is room for the largest tiles.
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
    for (int64_t r = 0; r < rows; ++r) std::memcpy(y + r * p_.n, whole + r * width, Bytes(columns));
  }

  static size_t Bytes(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

  const Plan& plan_;
  const Product& p_;
  const Matrix a_;
  const Matrix b_;
  const float* bias_;
  float* y_;
  float* shared_;
};

}  // namespace

// The tables are empty where the compiler or the processor lacks the instructions.
const Tiles& BestTiles() {
  if (const Tiles* tiles = Avx512Tiles()) return *tiles;
  if (const Tiles* tiles = Avx2Tiles()) return *tiles;
  return PortableTiles();
}

const Tiles* PairTiles(int64_t k) {
  for (const Tiles* tiles : {AmxPairTiles(), Avx512PairTiles()}) {
    if (tiles != nullptr && k % (tiles->values * tiles->depth_multiple) == 0) return tiles;
  }
  return nullptr;
}

void PackPairs(const Tiles& tiles, const uint16_t* b, int64_t stride, int64_t k, int64_t n, float* panel) {
  constexpr int64_t kRows = 64;
  std::array<const uint16_t*, kRows> rows;
  for (int64_t first = 0; first < k; first += kRows) {
    const int64_t count = std::min(kRows, k - first);
    for (int64_t r = 0; r < count; ++r) rows[static_cast<size_t>(r)] = b + (first + r) * stride;
    tiles.interleave({rows.data(), count / 2, 0, n, panel + first / 2 * tiles.columns, tiles.columns});
  }
}

Plan MakePlan(const Product& product, const Tiles& tiles) {
  Plan plan{.product = product, .tiles = &tiles};
  // Threads that take rows write whole ones, one after another; where b is much the larger, packing it for all costs
  // more.
  plan.cuts_rows = product.n <= 2 * product.m;
  const int64_t units = plan.cuts_rows ? Ceil(product.m, tiles.rows) : Ceil(product.n, tiles.columns);
  // A part of less than a million multiplications is done sooner than a thread is woken.
  const int64_t worth = std::max<int64_t>(1, product.m * product.n * product.k / (1 << 20));
  plan.parts = static_cast<int>(std::min({int64_t{ThreadCount()}, units, worth}));
  plan.depth = Ceil(product.k, Ceil(product.k, kLongestDepth));
  // Where sums are short, results are most of the work: long runs of them.
  const int64_t unit = plan.cuts_rows ? tiles.rows : tiles.columns;
  plan.most_units = std::max(kGroup, kPackedB / plan.depth / unit);
  const int64_t panels = plan.cuts_rows ? std::max<int64_t>(1, kPackedB / plan.depth / tiles.columns) : plan.most_units;
  plan.columns = std::min(panels, Ceil(product.n, tiles.columns)) * tiles.columns;
  const int64_t n = RoundedUp(product.n, tiles.columns);
  const int64_t b = product.packed_b ? 0 : n;
  plan.shared_floats = RoundedUp(product.k * (plan.cuts_rows ? b : product.m), 16);
  const int64_t own_b = product.packed_b ? 0 : plan.columns;
  const int64_t own = plan.cuts_rows ? std::min(product.m, plan.most_units * tiles.rows) : own_b;
  plan.part_floats = RoundedUp(plan.depth * own, 16);
  return plan;
}

void Run(const Plan& plan, const Matrix& a, const Matrix& b, const float* bias, float* y, float* scratch) {
  const Multiplication run(plan, a, b, bias, y, scratch);
  // The end of the first ParallelFor is the barrier: no tile is multiplied before all shared panels are there.
  WorkQueue pieces(run.SharedItems(), 1, plan.parts);
  ParallelFor(run.SharedItems() > 0 ? plan.parts : 0, 1, [&](int64_t, int64_t, int) {
    for (int64_t begin = 0, end = 0; pieces.Take(begin, end);) run.PackShared(begin, end);
  });
  WorkQueue units(run.Units(), plan.most_units, plan.parts);
  ParallelFor(plan.parts, 1, [&](int64_t part, int64_t, int) {
    float* own = scratch + plan.shared_floats + part * plan.part_floats;
    for (int64_t begin = 0, end = 0; units.Take(begin, end);) run.Multiply(begin, end, own);
  });
}

}  // namespace moka::gemm
