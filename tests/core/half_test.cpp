// All 65,536 values of both half types go through float and back, and ties round to even.
#include "core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/half_spans.h"
#include "core/rng.h"

namespace moka {
namespace {

TEST(Half, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = FloatOfHalf(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(FloatOfHalf(HalfOfFloat(value)))) << bits;
    } else {
      EXPECT_EQ(HalfOfFloat(value), half);
    }
    const float wide = FloatOfBFloat16(half);
    EXPECT_TRUE(std::isnan(wide) || BFloat16OfFloat(wide) == half) << bits;
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  RandomStream random(3, 0);
  for (int trial = 0; trial < 200000; ++trial) {
    const auto low = static_cast<uint16_t>(random.Below(0x7BFF));  // positive, finite, with a finite successor
    const float a = FloatOfHalf(low);
    const float b = FloatOfHalf(static_cast<uint16_t>(low + 1));
    const float middle = a + (b - a) / 2;  // exact: a float has 13 more bits
    EXPECT_EQ(HalfOfFloat(middle), low % 2 == 0 ? low : low + 1);
    EXPECT_EQ(HalfOfFloat(std::nextafter(middle, 0.0F)), low);
    EXPECT_EQ(HalfOfFloat(-std::nextafter(middle, 1e9F)), 0x8000 | (low + 1));
  }
}

TEST(Half, KnownValues) {
  EXPECT_EQ(HalfOfFloat(1.0F), 0x3C00);
  EXPECT_EQ(HalfOfFloat(-2.0F), 0xC000);
  EXPECT_EQ(HalfOfFloat(65504.0F), 0x7BFF);
  EXPECT_EQ(HalfOfFloat(65519.996F), 0x7BFF);
  EXPECT_EQ(HalfOfFloat(65520.0F), 0x7C00);
  EXPECT_EQ(HalfOfFloat(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(HalfOfFloat(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(HalfOfFloat(0x1p-24F), 1);
  EXPECT_EQ(HalfOfFloat(0x1p-25F), 0);
  EXPECT_EQ(HalfOfFloat(-0.0F), 0x8000);
  EXPECT_EQ(BFloat16OfFloat(1.0F), 0x3F80);
  EXPECT_EQ(BFloat16OfFloat(0x1.01p0F), 0x3F80);  // a tie goes to the even one
  EXPECT_EQ(BFloat16OfFloat(0x1.03p0F), 0x3F82);
  EXPECT_TRUE(std::isnan(FloatOfBFloat16(BFloat16OfFloat(std::nanf("")))));
}

// Rows of floats of every magnitude, infinities, subnormals and ties among them, of lengths around a register's.
TEST(HalfSpans, ConvertAsSingleValuesDo) {
  RandomStream random(4, 0);
  std::vector<float> floats = {0.0F,
                               -0.0F,
                               0x1.01p0F,
                               0x1.03p0F,
                               65520.0F,
                               0x1p-24F,
                               0x1p-25F,
                               -0x1.8p-25F,
                               0x1p-133F,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::max()};
  while (floats.size() < 3000)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random.Below(uint64_t{1} << 32U))));
  for (const DType type : {DType::kFloat16, DType::kBFloat16}) {
    const bool is_brain = type == DType::kBFloat16;
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{8}, int64_t{33}, int64_t{3000}}) {
      std::vector<uint16_t> halves(static_cast<size_t>(count) + 1, 0xABCD);
      Narrow(type, floats.data(), count, halves.data());
      std::vector<float> wide(static_cast<size_t>(count) + 1, 7.0F);
      Widen(type, halves.data(), count, wide.data());
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
        const uint16_t expected = is_brain ? BFloat16OfFloat(floats[i]) : HalfOfFloat(floats[i]);
        if (std::isnan(floats[i])) {
          EXPECT_TRUE(std::isnan(wide[i])) << i;
          continue;
        }
        EXPECT_EQ(halves[i], expected) << NameOf(type) << " of " << floats[i];
        EXPECT_EQ(wide[i], is_brain ? FloatOfBFloat16(expected) : FloatOfHalf(expected)) << i;
      }
      EXPECT_EQ(halves.back(), 0xABCD);
      EXPECT_EQ(wide.back(), 7.0F);
    }
  }
}

}  // namespace
}  // namespace moka
