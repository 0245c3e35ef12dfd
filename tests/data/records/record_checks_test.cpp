// Records against the checksums that their importer wrote, and databases that change while they are read.
#include <google/protobuf/text_format.h>
#include <unistd.h>

#include "core/log.h"
#include "core/text.h"
#include "data/import/copy_records.h"
#include "data/inspect/inspect.h"
#include "data/pipeline/open_pipeline.h"
#include "data/records/record_source.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kCheckedRecords = 12;

class RecordChecks : public DataTest {
 protected:
  RecordChecks() {
    std::vector<Datum> datums;
    for (int i = 0; i < kCheckedRecords; ++i) datums.push_back(RawDatum(1, 40, 40, i, i));
    WriteDatabase(At("db"), datums);
  }

  // Another byte in the middle of a record's pixels: it reads as well as before.
  void Damage(int64_t record) const {
    const LmdbReader reader(At("db"));
    const std::string_view value = reader.unchecked_value(record);
    const std::string whole = ReadFile(At("db/data.mdb"));
    const size_t at = whole.find(value) + value.size() / 2;
    std::fstream file(At("db/data.mdb"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(whole[at] ^ 1));
  }
  void RemoveChecksums() const { fs::remove(At("db/records.crc32c")); }

  std::unique_ptr<Pipeline> Open(SolverParameter::RecordChecks checks, const std::string& fields = {}) const {
    LayerParameter layer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        StrCat("name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: 'db' backend: LMDB batch_size: 4 "
               "prefetch: 1 ",
               fields, " }"),
        &layer));
    return OpenPipeline(layer, {.seed = 3, .threads = 1, .base_folder = folder_, .record_checks = checks});
  }
};

TEST_F(RecordChecks, RecordsWithoutAnyLabelAreTold) {
  std::vector<Datum> datums = {RawDatum(1, 2, 2, 0, 0), RawDatum(1, 2, 2, 0, 0)};
  datums[0].clear_label();
  const auto told = [&] {
    fs::remove_all(At("db"));
    WriteDatabase(At("db"), datums);
    SetLogFile(At("log"));
    Open(SolverParameter::FIRST_READ);
    SetLogFile({});
    const std::string log = ReadFile(At("log"));
    fs::remove(At("log"));
    return log;
  };
  EXPECT_THAT(told(), testing::Not(HasSubstr("no label")));
  datums[1].clear_label();
  EXPECT_THAT(told(), HasSubstr("layer \"d\": the records of db have no label: \"label\" is 0 for each"));
}

TEST_F(RecordChecks, RecordsHavePixelsOfOneKind) {
  Datum both = RawDatum(1, 2, 2, 0, 0);
  for (int i = 0; i < 4; ++i) both.add_float_data(1);
  RecordScratch scratch;
  EXPECT_EQ(ErrorOf([&] { ReadDatum(both.SerializeAsString(), scratch); }),
            "a Datum with data and float_data, 4 bytes and 4 floats: expected one of them");
}

TEST_F(RecordChecks, EachPolicyChecksWhenItSays) {
  const LmdbReader every(At("db"), {LmdbReader::Access::kSequential, LmdbReader::Checks::kEveryRead});
  const LmdbReader first(At("db"), {LmdbReader::Access::kSequential, LmdbReader::Checks::kFirstRead});
  const LmdbReader none(At("db"), {LmdbReader::Access::kSequential, LmdbReader::Checks::kNoRead});
  for (const LmdbReader* reader : {&every, &first, &none}) EXPECT_GT(reader->value(5).size(), 1600U);
  Damage(5);
  Damage(6);
  EXPECT_THAT(ErrorOf([&] { every.value(5); }), HasSubstr("not those that were imported"));
  EXPECT_EQ(first.value(5), none.value(5));  // it was good when it was read first
  EXPECT_THAT(ErrorOf([&] { first.value(6); }), HasSubstr("not those that were imported"));
  EXPECT_THAT(ErrorOf([&] { first.value(6); }), HasSubstr("not those that were imported"));
  EXPECT_EQ(none.value(6), every.unchecked_value(6));
}

TEST_F(RecordChecks, ADatabaseWithoutChecksumsIsRead) {
  RemoveChecksums();
  Damage(5);
  EXPECT_GT(LmdbReader(At("db")).value(5).size(), 1600U);
}

TEST_F(RecordChecks, StopNamesTheRecordAndSkipTakesTheNext) {
  Damage(1);
  const auto stops = Open(SolverParameter::EVERY_READ);
  EXPECT_THAT(ErrorOf([&] { Next(*stops); }),
              HasSubstr(StrCat("record \"00000001_r\" (index 1) of ", At("db").string(),
                               ": its bytes are not those that were imported (their checksum differs)")));
  const auto skips = Open(SolverParameter::FIRST_READ, "on_bad_record: SKIP");
  EXPECT_THAT(Next(*skips)[1], testing::ElementsAre(0, 2, 2, 3));
  EXPECT_GE(skips->statistics().bad_records, 1);
  EXPECT_THAT(Next(*Open(SolverParameter::NO_READ))[1], testing::ElementsAre(0, 1, 2, 3));
}

TEST_F(RecordChecks, OtherReadersCheckToo) {
  Damage(3);
  EXPECT_THAT(ErrorOf([&] { ComputeMean(At("db")); }), HasSubstr("\"00000003_r\" (index 3)"));
  EXPECT_THAT(ErrorOf([&] { ShuffleLmdb(At("db"), At("copy"), {}); }), HasSubstr("\"00000003_r\" (index 3)"));
  ASSERT_EQ(InspectLmdb(At("db")).bad.size(), 1U);
  ASSERT_EQ(VerifyLmdb(At("db")).bad.size(), 1U);
}

// Reads batches until an error comes.
std::string ErrorOfReading(Pipeline& pipeline, const std::function<void(Pipeline&)>& next) {
  return ErrorOf([&] {
    for (int batch = 0; batch < 100; ++batch) next(pipeline);
  });
}

TEST_F(RecordChecks, AFileCutWhileItIsReadIsAnErrorOfItsOwn) {
  for (const bool has_checksums : {true, false}) {
    if (!has_checksums) RemoveChecksums();
    const std::string whole = ReadFile(At("db/data.mdb"));
    for (const char* fields : {"", "on_bad_record: SKIP"}) {
      const auto pipeline = Open(SolverParameter::EVERY_READ, fields);
      Next(*pipeline);
      ASSERT_EQ(truncate(At("db/data.mdb").c_str(), 8192), 0);
      const std::string error = ErrorOfReading(*pipeline, [](Pipeline& p) { Next(p); });
      EXPECT_THAT(error, testing::AnyOf(HasSubstr("lost pages while it was read"), HasSubstr("was cut from")))
          << fields;
      Write("db/data.mdb", whole);
    }
  }
}

TEST_F(RecordChecks, WithoutChecksumsAFileThatIsWrittenIsAnError) {
  RemoveChecksums();
  const auto pipeline = Open(SolverParameter::EVERY_READ);
  Next(*pipeline);
  Damage(2);
  EXPECT_THAT(ErrorOfReading(*pipeline, [](Pipeline& p) { Next(p); }), HasSubstr("was written while it was read"));
}

}  // namespace
}  // namespace moka
