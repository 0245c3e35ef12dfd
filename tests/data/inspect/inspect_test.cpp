// Counts, statistics, mean images and the check of every record, on sets with known faults.
#include "data/inspect/inspect.h"

#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using Inspect = DataTest;

TEST_F(Inspect, CountsAndStatistics) {
  Datum encoded;
  encoded.set_encoded(true);
  encoded.set_label(7);
  encoded.set_data(EncodePng(Image{.width = 2, .height = 1, .channels = 1, .pixels = {30, 50}}));
  Datum raw = RawDatum(1, 1, 2, 10, 3);  // 10, 11
  Datum floats;
  floats.set_channels(1);
  floats.set_height(1);
  floats.set_width(2);
  floats.add_float_data(0);
  floats.add_float_data(1);
  WriteDatabase(At("db"), {encoded, raw, raw, floats});
  const LmdbSummary summary = InspectLmdb(At("db"));
  EXPECT_EQ(summary.records, 4);
  EXPECT_EQ(summary.encoded, 1);
  EXPECT_EQ(summary.floats, 1);
  EXPECT_EQ(summary.labels, (std::map<int64_t, int64_t>{{0, 1}, {3, 2}, {7, 1}}));
  EXPECT_EQ(summary.shapes, (std::map<std::string, int64_t>{{"1x1x2", 4}}));
  EXPECT_DOUBLE_EQ(summary.mean[0], (30 + 50 + 2 * (10 + 11) + 0 + 1) / 8.0);
  EXPECT_TRUE(summary.bad.empty());
}

TEST_F(Inspect, VerifyListsEveryBadRecord) {
  std::vector<Datum> datums;
  for (int i = 0; i < 100; ++i) datums.push_back(RawDatum(1, 4, 4, i, i));
  datums[17].mutable_data()->pop_back();
  datums[42].set_encoded(true);
  WriteDatabase(At("db"), datums);
  const LmdbVerdict verdict = VerifyLmdb(At("db"));
  EXPECT_EQ(verdict.records, 100);
  EXPECT_TRUE(verdict.has_checksums);
  ASSERT_EQ(verdict.bad.size(), 2U);
  EXPECT_EQ(verdict.bad[0].key, "00000017_r");
  EXPECT_EQ(verdict.bad[0].reason, "a Datum of shape 1x4x4 with 15 bytes");
  EXPECT_EQ(verdict.bad[1].index, 42);
}

TEST_F(Inspect, VerifySeesAFlippedPixel) {
  WriteDatabase(At("db"), {RawDatum(1, 100, 100, 0, 0), RawDatum(1, 100, 100, 1, 1)});
  std::string bytes = ReadFile(At("db/data.mdb"));
  bytes[bytes.size() - 6000] = static_cast<char>(bytes[bytes.size() - 6000] ^ 4);
  Write("db/data.mdb", bytes);
  const LmdbVerdict verdict = VerifyLmdb(At("db"));
  ASSERT_EQ(verdict.bad.size(), 1U);
  EXPECT_EQ(verdict.bad[0].reason, "its bytes are not those that were imported (their checksum differs)");
}

TEST_F(Inspect, MeanIsTheAverageRecord) {
  WriteDatabase(At("db"), {RawDatum(2, 2, 2, 0, 0), RawDatum(2, 2, 2, 10, 0)});
  const BlobProto mean = ComputeMean(At("db"));
  EXPECT_THAT(mean.shape().dim(), testing::ElementsAre(1, 2, 2, 2));
  EXPECT_THAT(mean.data(), testing::ElementsAre(5, 6, 7, 8, 9, 10, 11, 12));
  SaveBlob(mean, At("mean.binaryproto"));
  BlobProto back;
  ASSERT_TRUE(back.ParseFromString(ReadFile(At("mean.binaryproto"))));
  EXPECT_EQ(back.SerializeAsString(), mean.SerializeAsString());
  WriteDatabase(At("mixed"), {RawDatum(2, 2, 2, 0, 0), RawDatum(2, 2, 3, 10, 0)});
  EXPECT_THAT(ErrorOf([&] { ComputeMean(At("mixed")); }),
              testing::HasSubstr("its shape is 2x2x3, the first record's 2x2x2"));
}

// As the layer that reads them: colours if any record has them.
TEST_F(Inspect, GrayRecordsOfAMeanAreThreeEqualChannels) {
  WriteDatabase(At("grey"), {RawDatum(1, 1, 2, 10, 0), RawDatum(3, 1, 2, 0, 0)});
  WriteDatabase(At("colour"), {RawDatum(3, 1, 2, 0, 0), RawDatum(1, 1, 2, 10, 0)});
  for (const char* name : {"grey", "colour"}) {
    const BlobProto mean = ComputeMean(At(name));
    EXPECT_THAT(mean.shape().dim(), testing::ElementsAre(1, 3, 1, 2)) << name;
    EXPECT_THAT(mean.data(), testing::ElementsAre(5, 6, 6, 7, 7, 8)) << name;
  }
}

}  // namespace
}  // namespace moka
