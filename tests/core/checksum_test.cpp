#include "core/checksum.h"

#include <gtest/gtest.h>

namespace moka {
namespace {

TEST(ChecksumTest, Crc32cHasItsCheckValueAndContinues) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(Crc32c("56789", Crc32c("1234")), 0xE3069283U);
  EXPECT_EQ(Crc32c(""), 0U);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
}

TEST(ChecksumTest, Sha256HasItsKnownAnswers) {
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace moka
