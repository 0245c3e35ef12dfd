// Single-precision matrix products blocked for registers and caches, for shapes of inner products and recurrent layers
// on which oneDNN's are slower (tools/bench/gemm_bench.cpp), and tiles of products of bfloat16 for recurrent layers.
// Sums are float32 and run over k in order, so results depend neither on threads nor on how the work is cut. No std in
// this header: files of other instruction sets include it.
#pragma once

#include <cstdint>

namespace moka::gemm {

// A matrix in memory: element (i, j) is data[i * row_stride + j * column_stride].
struct Matrix {
  const float* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 1;
};

// The packed operands of a tile are words of four bytes: float32, or pairs of bfloat16 that follow each other in k.
struct TileArgs {
  int64_t depth = 0;         // words
  const float* a = nullptr;  // [depth, rows]; of AMX's tiles [depth / 16, rows, 16]
  const float* b = nullptr;  // [depth, columns of the tile]
  float* c = nullptr;
  int64_t c_stride = 0;
  const float* bias = nullptr;  // one value a column of the tile, or null
  bool adds = false;            // to what c holds
  bool relu = false;            // last
  // Memory needed soon, asked for meanwhile: two lines at each of so many first steps of k.
  const float* next = nullptr;
  int64_t next_stride = 0;
  int64_t next_steps = 0;
};

// Rows of bfloat16 whose values are paired with those of the row behind: words [pairs][width] of `n` values from
// `first` on, then zeros.
struct Interleaving {
  const uint16_t* const* rows = nullptr;  // [2 * pairs]
  int64_t pairs = 0;
  int64_t first = 0;
  int64_t n = 0;
  float* words = nullptr;
  int64_t width = 0;
};

// y [m,n] = a [m,k] b^T with b [n,k], plus a bias [n], then a ReLU; all row-major. m is 1 to kMostDotRows.
struct DotArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* bias = nullptr;  // or null
  float* y = nullptr;
  int64_t m = 1;
  int64_t k = 0;
  int64_t n = 0;
  bool relu = false;
};
inline constexpr int64_t kMostDotRows = 4;

// The step from a tile's sums to rows of bfloat16.
struct Finish {
  const float* sums = nullptr;
  int64_t sums_stride = 0;
  int64_t rows = 0;
  int64_t n = 0;
  uint16_t* to = nullptr;
  int64_t stride = 0;                 // of `to` and `summand`
  const float* bias = nullptr;        // one value a column, or null
  const uint16_t* summand = nullptr;  // as `to` lies, may be it; or null
  bool relu = false;                  // last
};

// The tiles of one instruction set, and how their operands are packed. Words move as they are: the matrices of what is
// packed are of words, too.
struct Tiles {
  const char* name;
  int rows;     // at most
  int columns;  // always
  void (*run)(const TileArgs& args, int rows);
  // b [k,n] as panels of `columns` columns: [n / columns][k][columns], the last one filled up with zeros. One of b's
  // strides is 1.
  void (*pack_panels)(const Matrix& b, int64_t k, int64_t n, float* packed);
  // rows of a (at most `rows`) as [k][rows]; of AMX's tiles [k / 16][rows][16].
  void (*pack_rows)(const Matrix& a, int64_t rows, int64_t k, float* packed);
  // The columns of y from begin to end; null where a word is no float.
  void (*dots)(const DotArgs& args, int64_t begin, int64_t end) = nullptr;
  int values = 1;          // of k in a word
  int depth_multiple = 1;  // of the depth, in words
  // Null where a word is a float. n floats rounded to words, n even; and the two below.
  void (*round)(const float* from, int64_t n, float* words) = nullptr;
  void (*interleave)(const Interleaving& args) = nullptr;
  void (*finish)(const Finish& args) = nullptr;
  // Around runs of one thread, between which it does nothing else with such tiles; null where that saves nothing.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
};

// Runs within its life share what is set up for tiles of as many rows (AMX's shapes, which take as long to load as some
// thousand products).
class TileScope {
 public:
  explicit TileScope(const Tiles& tiles) : tiles_(tiles) {
    if (tiles_.enter != nullptr) tiles_.enter();
  }
  ~TileScope() {
    if (tiles_.leave != nullptr) tiles_.leave();
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const Tiles& tiles_;
};

// The widest this processor has.
const Tiles& BestTiles();
// Null where the compiler or the processor has not those instructions.
const Tiles* Avx512Tiles();
const Tiles* Avx2Tiles();
const Tiles& PortableTiles();

// Products of bfloat16 whose rows of k have so many values: the widest tiles of pairs that this processor has and that
// take such rows, or null.
const Tiles* PairTiles(int64_t k);
// Null where the compiler or the processor has not those instructions. AMX's have no bias and no ReLU.
const Tiles* Avx512PairTiles();
const Tiles* AmxPairTiles();
// A panel of b [k,n], n <= columns, rows of bfloat16 `stride` values apart: words are pairs of two rows. k is even.
void PackPairs(const Tiles& tiles, const uint16_t* b, int64_t stride, int64_t k, int64_t n, float* panel);

// y [m,n] = a [m,k] b [k,n], plus a bias [n], then a ReLU; y row-major.
struct Product {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  bool has_bias = false;
  bool relu = false;
  bool packed_b = false;  // b comes as pack_panels leaves it: panels over all of k, one after another
};

// How the product is cut; the same for every run of a kernel.
struct Plan {
  Product product;
  const Tiles* tiles = nullptr;
  int parts = 1;              // threads at work
  bool cuts_rows = false;     // they share out tiles of rows; else panels of columns
  int64_t depth = 0;          // of k at once
  int64_t columns = 0;        // of b at once
  int64_t most_units = 0;     // tiles or panels taken at once
  int64_t shared_floats = 0;  // scratch: what is packed once for all parts
  int64_t part_floats = 0;    // and of each part's own
  int64_t scratch_bytes() const { return (shared_floats + parts * part_floats) * static_cast<int64_t>(sizeof(float)); }
};

// Chooses blocks, parts and scratch for a product by its sizes and the number of threads.
Plan MakePlan(const Product& product, const Tiles& tiles);
// scratch: plan.scratch_bytes(), aligned to 64 bytes. bias may be null. Of a packed b only the data counts.
void Run(const Plan& plan, const Matrix& a, const Matrix& b, const float* bias, float* y, float* scratch);

}  // namespace moka::gemm
