// Records that cannot be read: the pipeline stops with their place, or skips and counts them.
#include "core/text.h"
#include "tests/data/pipeline/pipelines_fixture.h"

namespace moka {
namespace {

class BadRecords : public Pipelines {
 protected:
  // Ten records of which 3, 4 and 8 are bad: junk bytes, a wrong size, a damaged JPEG.
  BadRecords() {
    LmdbWriter writer(At("db"));
    for (int i = 0; i < 10; ++i) {
      Datum datum = RawDatum(3, 6, 6, i, i);
      if (i == 4) datum.mutable_data()->pop_back();
      if (i == 8) {
        datum.set_encoded(true);
        datum.set_data("\xFF\xD8\xFFjunk");
      }
      writer.Put(LmdbKey(i, "rec"), i == 3 ? "\x08\x80" : datum.SerializeAsString());
    }
    writer.Finish();
  }
};

TEST_F(BadRecords, StopNamesKeyIndexAndFile) {
  const auto pipeline = OpenPipeline(DataLayer("batch_size: 2"), Options());
  NextOf(*pipeline);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(ErrorOf([&] { NextOf(*pipeline); }),
              StrCat("record \"00000003_rec\" (index 3) of ", At("db").string(),
                     ": not a Datum: the record ends inside a number at byte 2 of 2"));
  }
  EXPECT_EQ(pipeline->position(), 2);
  pipeline->Seek(5);
  EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(5, 6));
}

TEST_F(BadRecords, SkipTakesTheNextGoodRecordAndCounts) {
  for (const int64_t threads : {1, 4}) {
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 10 on_bad_record: SKIP"), Options(threads));
    EXPECT_THAT(NextOf(*pipeline).labels, testing::ElementsAre(0, 1, 2, 5, 5, 5, 6, 7, 9, 9));
    EXPECT_EQ(pipeline->statistics().bad_records, 3);
  }
}

TEST_F(BadRecords, SkipLogsEachKeyOnce) {
  SetLogFile(At("log"));
  {
    const auto pipeline = OpenPipeline(DataLayer("batch_size: 10 on_bad_record: SKIP"), Options());
    for (int i = 0; i < 5; ++i) NextOf(*pipeline);
  }
  SetLogFile({});
  const std::string log = ReadFile(At("log"));
  for (const char* key : {"00000003_rec", "00000004_rec", "00000008_rec"}) {
    const size_t first = log.find(key);
    ASSERT_NE(first, std::string::npos) << key;
    EXPECT_EQ(log.find(key, first + 1), std::string::npos) << key;
  }
}

TEST_F(Pipelines, AllRecordsBadIsAnError) {
  LmdbWriter writer(At("db"));
  for (int i = 0; i < 3; ++i) writer.Put(LmdbKey(i, "x"), "\x08\x80");
  writer.Finish();
  EXPECT_THAT(ErrorOf([&] { OpenPipeline(DataLayer("batch_size: 2 on_bad_record: SKIP"), Options()); }),
              testing::HasSubstr("00000002_x"));
}

TEST_F(Pipelines, RecordsOfAnotherShapeAreNamed) {
  WriteDatabase(At("db"), {RawDatum(3, 6, 6, 0, 0), RawDatum(3, 6, 5, 0, 0)});
  const auto pipeline = OpenPipeline(DataLayer("batch_size: 2"), Options());
  EXPECT_THAT(ErrorOf([&] { NextOf(*pipeline); }),
              testing::HasSubstr("(index 1) of " + At("db").string() +
                                 ": its sample is [3,6,5], the first record's was [3,6,6]; all samples of a layer"));
}

}  // namespace
}  // namespace moka
