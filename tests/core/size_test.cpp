// Checked arithmetic against 128 bits near every boundary.
#include "core/size.h"

#include <gtest/gtest.h>

#include <array>

#include "core/error.h"

namespace moka {
namespace {

__extension__ using Int128 = __int128;

// Values near every boundary a parsed dimension can take.
constexpr std::array<int64_t, 14> kEdges = {
    INT64_MIN,        INT64_MIN + 1,          -(int64_t{1} << 32), -2,       -1, 0, 1, 2, 3, (int64_t{1} << 31) - 1,
    int64_t{1} << 31, (int64_t{1} << 32) + 1, INT64_MAX - 1,       INT64_MAX};

// The checked operation against 128-bit arithmetic: equal where it fits, an error where it does not.
template <class Checked, class Wide>
void Compare(int64_t a, int64_t b, Checked checked, Wide wide) {
  const Int128 expected = wide(static_cast<Int128>(a), static_cast<Int128>(b));
  if (expected >= INT64_MIN && expected <= INT64_MAX) {
    EXPECT_EQ(checked(Size(a), Size(b)).value(), static_cast<int64_t>(expected)) << a << " and " << b;
  } else {
    EXPECT_THROW(checked(Size(a), Size(b)), Error) << a << " and " << b;
  }
}

TEST(SizeTest, AgreesWithWideArithmeticAtTheEdges) {
  for (const int64_t a : kEdges) {
    for (const int64_t b : kEdges) {
      Compare(
          a, b, [](Size x, Size y) { return x + y; }, [](Int128 x, Int128 y) { return x + y; });
      Compare(
          a, b, [](Size x, Size y) { return x - y; }, [](Int128 x, Int128 y) { return x - y; });
      Compare(
          a, b, [](Size x, Size y) { return x * y; }, [](Int128 x, Int128 y) { return x * y; });
    }
  }
}

TEST(SizeTest, DivisionRoundsDownAndRefusesZero) {
  EXPECT_EQ((Size(7) / 2).value(), 3);
  EXPECT_EQ((Size(-7) / 2).value(), -4);
  EXPECT_EQ((Size(7) / -2).value(), -4);
  EXPECT_EQ((Size(-8) / 2).value(), -4);
  EXPECT_THROW(Size(1) / 0, Error);
  EXPECT_THROW(Size(INT64_MIN) / -1, Error);
}

TEST(SizeTest, RoundUpAndCeilDivCoverTheRemainder) {
  EXPECT_EQ(RoundUp(0, 64).value(), 0);
  EXPECT_EQ(RoundUp(1, 64).value(), 64);
  EXPECT_EQ(RoundUp(64, 64).value(), 64);
  EXPECT_EQ(CeilDiv(65, 64).value(), 2);
  EXPECT_THROW(RoundUp(INT64_MAX, 64), Error);
}

TEST(SizeTest, OverflowNamesItsOperands) {
  try {
    static_cast<void>(Size(INT64_MAX) * 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    EXPECT_STREQ(error.what(), "size overflow: 9223372036854775807 * 2 does not fit in 63 bits");
  }
}

}  // namespace
}  // namespace moka
