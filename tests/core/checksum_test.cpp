// The published check values of CRC-32C, XXH64 and SHA-256.
#include "core/checksum.h"

#include <gtest/gtest.h>

namespace moka {
namespace {

// Values that the documentation of xxHash and python-xxhash names.
TEST(ChecksumTest, Hash64IsXxh64) {
  EXPECT_EQ(Hash64(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(Hash64("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(Hash64("abc"), 0x44BC2CF5AD770999U);
  EXPECT_EQ(Hash64("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1U);
  EXPECT_NE(Hash64("abc", 1), Hash64("abc"));
}

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
