// Values on the wire: what arrives, and that rounding in place gives the same bits.
#include "comm/schedule/wire.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "core/error.h"
#include "core/half.h"

namespace moka {
namespace {

std::vector<float> Values() { return {0.0F, -0.0F, 1.0F, 0.1F, -3.14159F, 65504.0F, 1e-7F, 70000.0F}; }

TEST(Wire, CarriesFloatsAsTheyAre) {
  const std::vector<float> values = Values();
  std::vector<std::byte> bytes(values.size() * 4);
  Encode(Wire::kFloat32, values.data(), 8, bytes.data());
  std::vector<float> back(8, 7.0F);
  Decode(Wire::kFloat32, bytes.data(), 8, back.data());
  EXPECT_EQ(back, values);
  DecodeAdd(Wire::kFloat32, bytes.data(), 8, back.data());
  EXPECT_EQ(back[3], 0.2F);
}

TEST(Wire, HalfTypesRoundOnceAndInPlaceAlike) {
  for (const Wire wire : {Wire::kFloat16, Wire::kBFloat16}) {
    const std::vector<float> values = Values();
    std::vector<std::byte> bytes(values.size() * 2);
    Encode(wire, values.data(), 8, bytes.data());
    std::vector<float> back(8);
    Decode(wire, bytes.data(), 8, back.data());
    EXPECT_EQ(back[4], wire == Wire::kFloat16 ? FloatOfHalf(HalfOfFloat(values[4]))
                                              : FloatOfBFloat16(BFloat16OfFloat(values[4])));
    EXPECT_NE(back[4], values[4]);
    std::vector<float> rounded = values;
    RoundTo(wire, rounded.data(), 8);
    EXPECT_EQ(rounded, back);
    std::vector<float> sums(8, 1.0F);
    DecodeAdd(wire, bytes.data(), 8, sums.data());
    EXPECT_EQ(sums[3], 1.0F + back[3]);  // the sum itself is not rounded to the wire
  }
}

TEST(Wire, NamesAreThoseOfTheConfiguration) {
  for (const Wire wire : {Wire::kFloat32, Wire::kFloat16, Wire::kBFloat16}) EXPECT_EQ(WireOf(NameOf(wire)), wire);
  try {
    (void)WireOf("float61");
    FAIL() << "an unknown name is an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    EXPECT_NE(error.hint().find("float16"), std::string::npos) << error.hint();
  }
}

}  // namespace
}  // namespace moka
