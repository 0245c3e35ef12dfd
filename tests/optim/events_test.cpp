// The bytes of TensorBoard's events.
#include "optim/run/events.h"

#include <cstring>

#include "core/checksum.h"
#include "optim_fixture.h"

namespace moka {
namespace {

uint32_t Masked(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
}

// The records of a file, each checksum checked.
std::vector<std::string> Records(const std::string& bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    std::memcpy(&crc, bytes.data() + at + 8, sizeof(crc));
    EXPECT_EQ(crc, Masked(std::string_view(bytes).substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    std::memcpy(&crc, bytes.data() + at + 12 + length, sizeof(crc));
    EXPECT_EQ(crc, Masked(records.back()));
    at += 16 + length;
  }
  return records;
}

using EventsTest = FolderTest;

TEST_F(EventsTest, AScalarEventIsTheseBytes) {
  // wall_time 1.5 (field 1, fixed64), step 300 (field 2), summary (field 5) { value (1) { tag (1) "a", simple_value (2)
  // 2 } }.
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xF8\x3F\x10\xAC\x02\x2A\x0A\x0A\x08\x0A\x01\x61\x15\x00\x00\x00\x40", 24);
  EXPECT_EQ(ScalarEvent(1.5, 300, "a", 2), expected);
}

TEST_F(EventsTest, FilesBeginWithTheVersionAndHoldTheScalars) {
  std::filesystem::path path;
  {
    EventWriter writer(folder_, -1);
    writer.AddScalar("train/loss", 10, 0.5);
    path = writer.path();
  }
  EXPECT_THAT(path.filename().string(), testing::StartsWith("events.out.tfevents."));
  const std::vector<std::string> records = Records(ReadFile(path));
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(records[0], testing::HasSubstr("brain.Event:2"));
  EXPECT_THAT(records[1], testing::HasSubstr("train/loss"));
}

TEST_F(EventsTest, AResumedRunSaysSo) {
  EventWriter first(folder_, -1);
  EventWriter writer(folder_, 5000);
  EXPECT_NE(first.path(), writer.path());
  const std::vector<std::string> records = Records(ReadFile(writer.path()));
  ASSERT_EQ(records.size(), 2U);
  // step 5000, session_log (field 7) { status (1) START = 1 }.
  EXPECT_TRUE(records[1].ends_with(std::string("\x10\x88\x27\x3A\x02\x08\x01", 7)));
}

TEST_F(EventsTest, AMissingFolderIsCannotCreate) {
  EXPECT_EQ(ErrorOf([&] { EventWriter(At("none"), -1); }).kind, ErrorKind::kCantCreate);
}

}  // namespace
}  // namespace moka
