// Moka's own matrix products against sums in double, for every instruction set this processor has.
#include "layers/kernels/cpu/matmul/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/device/tensor.h"
#include "core/half.h"
#include "core/rng.h"
#include "core/threads/parallel.h"

namespace moka::gemm {
namespace {

struct Case {
  int64_t m, k, n;
};

std::vector<const Tiles*> AllTiles() {
  std::vector<const Tiles*> all{&PortableTiles()};
  if (const Tiles* tiles = Avx2Tiles()) all.push_back(tiles);
  if (const Tiles* tiles = Avx512Tiles()) all.push_back(tiles);
  return all;
}

std::vector<float> Random(int64_t count, uint64_t stream) {
  std::vector<float> values(static_cast<size_t>(count));
  RandomStream random(3, stream);
  for (float& v : values) v = static_cast<float>(random.Uniform(-1, 1));
  return values;
}

std::vector<float> Multiply(const Tiles& tiles, const Product& product, const Matrix& a, const Matrix& b,
                            const float* bias) {
  const Plan plan = MakePlan(product, tiles);
  const Buffer scratch = Buffer::Allocate(plan.scratch_bytes());
  std::vector<float> y(static_cast<size_t>(product.m * product.n), NAN);
  Run(plan, a, b, bias, y.data(), reinterpret_cast<float*>(scratch.data()));
  return y;
}

void ExpectProduct(const Tiles& tiles, const Case& c, bool transpose_a, bool transpose_b, bool biased) {
  SCOPED_TRACE(testing::Message() << tiles.name << " " << c.m << "x" << c.k << "x" << c.n << (transpose_a ? " a^T" : "")
                                  << (transpose_b ? " b^T" : "") << (biased ? " bias, relu" : ""));
  const std::vector<float> a = Random(c.m * c.k, 1);
  const std::vector<float> b = Random(c.k * c.n, 2);
  const std::vector<float> bias = Random(c.n, 3);
  const Matrix left{a.data(), transpose_a ? 1 : c.k, transpose_a ? c.m : 1};
  const Matrix right{b.data(), transpose_b ? 1 : c.n, transpose_b ? c.k : 1};
  const std::vector<float> y =
      Multiply(tiles, {c.m, c.k, c.n, biased, biased}, left, right, biased ? bias.data() : nullptr);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = biased ? bias[static_cast<size_t>(j)] : 0;
      for (int64_t p = 0; p < c.k; ++p) {
        sum += double{left.data[i * left.row_stride + p * left.column_stride]} *
               double{right.data[p * right.row_stride + j * right.column_stride]};
      }
      if (biased) sum = std::max(sum, 0.0);
      ASSERT_NEAR(y[static_cast<size_t>(i * c.n + j)], sum, 2e-6 * std::sqrt(static_cast<double>(c.k)) + 1e-6)
          << i << "," << j;
    }
  }
}

// Tails of rows, columns and depth, one and several parts, blocks of every loop.
constexpr Case kCases[] = {{1, 1, 1},     {3, 2, 5},      {4, 16, 32},   {12, 33, 64},  {13, 40, 31},
                           {29, 65, 97},  {64, 96, 96},   {100, 17, 33}, {257, 70, 65}, {40, 1600, 72},
                           {37, 3100, 5}, {1100, 30, 40}, {8, 9, 700}};

TEST(Gemm, AgreesWithSumsInDouble) {
  for (const Tiles* tiles : AllTiles()) {
    for (const Case& c : kCases) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) ExpectProduct(*tiles, c, transpose_a, transpose_b, c.m % 2 == 0);
      }
    }
  }
}

// Operands that lie in panels already are what packing them in the run gives: where rows and where columns are shared
// out, with the last panel half full, over several blocks of k.
TEST(Gemm, PackedPanelsDoNotChangeABit) {
  for (const Tiles* tiles : AllTiles()) {
    for (const Case& c : kCases) {
      const std::vector<float> a = Random(c.m * c.k, 1);
      const std::vector<float> b = Random(c.k * c.n, 2);
      const std::vector<float> bias = Random(c.n, 3);
      const Matrix left{a.data(), c.k, 1};
      const Matrix right{b.data(), c.n, 1};
      const int64_t panels = (c.n + tiles->columns - 1) / tiles->columns;
      std::vector<float> packed(static_cast<size_t>(panels * tiles->columns * c.k), NAN);
      tiles->pack_panels(right, c.k, c.n, packed.data());
      const std::vector<float> plain = Multiply(*tiles, {c.m, c.k, c.n, true, true}, left, right, bias.data());
      const Matrix of_panels{packed.data(), 0, 0};
      EXPECT_EQ(plain, Multiply(*tiles, {c.m, c.k, c.n, true, true, true}, left, of_panels, bias.data()))
          << tiles->name << " " << c.m << "x" << c.k << "x" << c.n;
    }
  }
}

// Sums run over k in one order, however the work is shared out.
TEST(Gemm, ThreadsDoNotChangeABit) {
  const int threads = ThreadCount();
  // Panels of columns are shared out, then tiles of rows.
  for (const Case c : {Case{100, 1700, 310}, Case{410, 700, 90}}) {
    const std::vector<float> a = Random(c.m * c.k, 1);
    const std::vector<float> b = Random(c.k * c.n, 2);
    for (const Tiles* tiles : AllTiles()) {
      SetThreadCount(1);
      const std::vector<float> one = Multiply(*tiles, {c.m, c.k, c.n}, {a.data(), c.k, 1}, {b.data(), c.n, 1}, nullptr);
      SetThreadCount(3);
      EXPECT_EQ(one, Multiply(*tiles, {c.m, c.k, c.n}, {a.data(), c.k, 1}, {b.data(), c.n, 1}, nullptr)) << tiles->name;
    }
  }
  SetThreadCount(threads);
}

// Tiles of pairs of bfloat16: rounded as core/half.h rounds, packed, multiplied, added to what C holds.

struct PairCase {
  int64_t rows, k, columns;
  bool adds;
};

std::vector<float> Dots(const Tiles& tiles, const Case& c, bool biased, const std::vector<int64_t>& cuts) {
  const std::vector<float> a = Random(c.m * c.k, 1);
  const std::vector<float> b = Random(c.k * c.n, 2);
  const std::vector<float> bias = Random(c.n, 3);
  std::vector<float> y(static_cast<size_t>(c.m * c.n), NAN);
  const DotArgs args{a.data(), b.data(), biased ? bias.data() : nullptr, y.data(), c.m, c.k, c.n, biased};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) tiles.dots(args, cuts[i], cuts[i + 1]);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = biased ? bias[static_cast<size_t>(j)] : 0;
      for (int64_t p = 0; p < c.k; ++p)
        sum += double{a[static_cast<size_t>(i * c.k + p)]} * double{b[static_cast<size_t>(j * c.k + p)]};
      if (biased) sum = std::max(sum, 0.0);
      EXPECT_NEAR(y[static_cast<size_t>(i * c.n + j)], sum, 2e-6 * std::sqrt(static_cast<double>(c.k)) + 1e-6)
          << tiles.name << " " << c.m << "x" << c.k << "x" << c.n << " at " << i << "," << j;
    }
  }
  return y;
}

TEST(GemmDots, AgreeWithSumsInDoubleHoweverTheyAreCut) {
  for (const Tiles* tiles : AllTiles()) {
    for (int64_t m = 1; m <= kMostDotRows; ++m) {
      for (const Case& c : {Case{m, 1, 1}, Case{m, 5, 9}, Case{m, 16, 8}, Case{m, 33, 17}, Case{m, 800, 50}}) {
        for (const bool biased : {false, true}) {
          const std::vector<float> whole = Dots(*tiles, c, biased, {0, c.n});
          const std::vector<float> parts = Dots(*tiles, c, biased, {0, c.n / 3, c.n / 2, c.n});
          EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0)
              << tiles->name << " " << c.m << "x" << c.k << "x" << c.n;
        }
      }
    }
  }
}

std::vector<const Tiles*> AllPairTiles() {
  std::vector<const Tiles*> all;
  for (const Tiles* tiles : {Avx512PairTiles(), AmxPairTiles()}) {
    if (tiles != nullptr) all.push_back(tiles);
  }
  return all;
}

std::vector<uint16_t> Rounded(const Tiles& tiles, const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size());
  std::vector<float> words(values.size() / 2);
  tiles.round(values.data(), static_cast<int64_t>(values.size()), words.data());
  std::memcpy(halves.data(), words.data(), 2 * halves.size());
  return halves;
}

void ExpectPairProduct(const Tiles& tiles, const PairCase& c) {
  SCOPED_TRACE(testing::Message() << tiles.name << " " << c.rows << "x" << c.k << "x" << c.columns);
  const std::vector<uint16_t> a = Rounded(tiles, Random(c.rows * c.k, 1));     // [rows,k]
  const std::vector<uint16_t> b = Rounded(tiles, Random(c.columns * c.k, 2));  // [columns,k]
  const int64_t depth = c.k / 2;
  const auto words = [](const std::vector<uint16_t>& halves) { return reinterpret_cast<const float*>(halves.data()); };
  std::vector<float> rows(static_cast<size_t>(c.rows * depth));
  std::vector<float> panel(static_cast<size_t>(tiles.columns * depth), NAN);
  tiles.pack_rows({words(a), depth, 1}, c.rows, depth, rows.data());
  tiles.pack_panels({words(b), 1, depth}, depth, c.columns, panel.data());
  const int64_t stride = tiles.columns + 3;
  const std::vector<float> held = Random(c.rows * stride, 3);
  std::vector<float> y = held;
  const TileArgs args{
      .depth = depth, .a = rows.data(), .b = panel.data(), .c = y.data(), .c_stride = stride, .adds = c.adds};
  tiles.run(args, static_cast<int>(c.rows));
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < stride; ++j) {
      const auto at = static_cast<size_t>(i * stride + j);
      double sum = c.adds ? held[at] : 0;
      for (int64_t p = 0; p < c.k && j < c.columns; ++p) {
        sum += double{FloatOfBFloat16(a[static_cast<size_t>(i * c.k + p)])} *
               FloatOfBFloat16(b[static_cast<size_t>(j * c.k + p)]);
      }
      if (j < c.columns) {
        ASSERT_NEAR(y[at], sum, 2e-6 * std::sqrt(static_cast<double>(c.k)) + 1e-6) << i << "," << j;
      } else if (j >= tiles.columns) {
        ASSERT_EQ(y[at], held[at]) << "beyond the tile";
      }
    }
  }
}

TEST(GemmPairs, AgreeWithSumsInDouble) {
  if (AllPairTiles().empty()) GTEST_SKIP() << "the processor has neither AVX512-BF16 nor AMX";
  for (const Tiles* tiles : AllPairTiles()) {
    const int64_t unit = tiles->values * tiles->depth_multiple;
    for (int64_t rows = 1; rows <= tiles->rows; ++rows) {
      ExpectPairProduct(*tiles, {rows, unit * (1 + rows % 3), tiles->columns - rows % 5, rows % 2 == 0});
    }
    ExpectPairProduct(*tiles, {tiles->rows, 512, tiles->columns, false});
  }
}

TEST(GemmPairs, RoundToNearestEven) {
  for (const Tiles* tiles : AllPairTiles()) {
    std::vector<float> values = Random(1000, 4);
    for (const uint32_t bits : {0x3F808000U, 0x3F818000U, 0x3F808001U, 0x7F800000U, 0xFF800000U, 0x7F7FFFFFU, 0U})
      values.insert(values.end(), 2, std::bit_cast<float>(bits));
    const std::vector<uint16_t> halves = Rounded(*tiles, values);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(halves[i], BFloat16OfFloat(values[i])) << values[i];
  }
}

TEST(GemmPairs, AreChosenForRowsThatTheyTake) {
  EXPECT_EQ(PairTiles(511), nullptr);
  EXPECT_EQ(PairTiles(6), Avx512PairTiles());
  EXPECT_EQ(PairTiles(64), AmxPairTiles() != nullptr ? AmxPairTiles() : Avx512PairTiles());
}

}  // namespace
}  // namespace moka::gemm
