// A writer that was cut goes on to the same bytes as one that was not.
#include "data/records/lmdb_writer.h"

#include <sys/resource.h>

#include <csignal>
#include <map>

#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int64_t kRecords = 700;
constexpr int64_t kBatch = 64;

// Values from nothing to several pages.
std::string ValueOf(int64_t i) {
  RandomStream random(5, static_cast<uint64_t>(i));
  return std::string(random.Below(i % 10 == 0 ? 20000 : 900), static_cast<char>('a' + i % 26));
}

std::map<std::string, std::string> FilesOf(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = ReadFile(entry.path());
  }
  return files;
}

class LmdbWriting : public DataTest {
 protected:
  static LmdbWriter::Options Resumable(const std::string& identity = R"({"source": "a"})") {
    return {.identity = identity, .batch_records = kBatch};
  }
  // Goes on from what is there up to `end` records; finishes the database when that is all of them.
  void WriteUpTo(int64_t end, const std::string& name = "db") const {
    LmdbWriter writer(At(name), Resumable());
    for (int64_t i = writer.entries(); i < end; ++i) {
      if (i % 100 == 50) writer.AddNote("skipped", StrCat("before ", i, ": damaged"));
      writer.Put(LmdbKey(i, "x"), ValueOf(i));
    }
    if (end == kRecords) writer.Finish();
  }
  int64_t Kept(const std::string& name = "db.partial") const {
    const LmdbReader reader(At(name));
    for (int64_t i = 0; i < reader.size(); ++i) {
      EXPECT_EQ(reader.key(i), LmdbKey(i, "x"));
      EXPECT_EQ(reader.value(i), ValueOf(i));
    }
    return reader.size();
  }
};

TEST_F(LmdbWriting, CutsLeaveNoTraceInTheBytes) {
  WriteUpTo(kRecords, "whole");
  const auto whole = FilesOf(At("whole"));
  EXPECT_THAT(whole, testing::SizeIs(5));
  EXPECT_THAT(whole.at("import_notes.txt"), testing::StartsWith("50 skipped before 50: damaged\n150 skipped "));
  for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{
           {1}, {kBatch}, {kBatch + 1}, {100, 101, 300}, {200, 500, 699}, {64, 128, 192, 256, 320, 384, 448}}) {
    for (const int64_t cut : cuts) {
      WriteUpTo(cut);
      if (cut >= kBatch) {
        EXPECT_EQ(Kept(), cut / kBatch * kBatch) << cut;
      } else {
        EXPECT_FALSE(fs::exists(At("db.partial"))) << "nothing was worth keeping";
      }
      EXPECT_FALSE(fs::exists(At("db")));
    }
    WriteUpTo(kRecords);
    EXPECT_EQ(FilesOf(At("db")), whole);
    EXPECT_FALSE(fs::exists(At("db.partial")));
    fs::remove_all(At("db"));
  }
}

TEST_F(LmdbWriting, TheMapGrowsInAResumedWriterToo) {
  const std::string value(size_t{3} << 20U, 'z');
  const auto write = [&](const char* name, int64_t end) {
    LmdbWriter writer(At(name), {.identity = "{}", .batch_records = 4});
    for (int64_t i = writer.entries(); i < end; ++i) writer.Put(LmdbKey(i, "big"), value);
    if (end == 30) writer.Finish();
  };
  write("whole", 30);  // 90 MB, above the first map of 32
  write("db", 9);
  write("db", 22);
  write("db", 30);
  EXPECT_EQ(FilesOf(At("db")), FilesOf(At("whole")));
}

TEST_F(LmdbWriting, NotesOfRecordsThatWereNotCommittedAreDropped) {
  WriteUpTo(kBatch * 3 + 10);  // notes before 50 and 150
  {
    LmdbWriter writer(At("db"), Resumable());
    ASSERT_EQ(writer.kept_notes().size(), 2U);
    EXPECT_EQ(writer.kept_notes()[1].record, 150);
    EXPECT_EQ(writer.kept_notes()[1].kind, "skipped");
    EXPECT_EQ(writer.kept_notes()[1].text, "before 150: damaged");
  }
  const std::string notes = ReadFile(At("db.partial/import_notes.txt"));
  Write("db.partial/import_notes.txt", notes + "192 skipped of a batch that was cut\n250 skip");
  WriteUpTo(kRecords);
  WriteUpTo(kRecords, "whole");
  EXPECT_EQ(FilesOf(At("db")), FilesOf(At("whole")));
}

TEST_F(LmdbWriting, AnotherImportIsRefusedUntilARestart) {
  WriteUpTo(100);
  LmdbWriter::Options other = Resumable(R"({"source": "b", "shuffle": 7})");
  EXPECT_THAT(ErrorOf([&] { LmdbWriter writer(At("db"), other); }),
              testing::AllOf(HasSubstr("db.partial holds the records of another import that was not finished: "),
                             HasSubstr("its source is \"a\", this one's \"b\""),
                             HasSubstr("its shuffle is none, this one's 7"), HasSubstr("give --restart")));
  EXPECT_EQ(Kept(), kBatch) << "the refusal changed nothing";
  other.restart = true;
  LmdbWriter writer(At("db"), other);
  EXPECT_EQ(writer.entries(), 0);
}

TEST_F(LmdbWriting, OneProcessWrites) {
  LmdbWriter writer(At("db"), Resumable());
  EXPECT_THAT(ErrorOf([&] { LmdbWriter second(At("db"), Resumable()); }), HasSubstr("another process is writing"));
  LmdbWriter::Options restart = Resumable();
  restart.restart = true;
  EXPECT_THAT(ErrorOf([&] { LmdbWriter second(At("db"), restart); }), HasSubstr("another process is writing"));
  try {
    const LmdbWriter second(At("db"), restart);
    ADD_FAILURE() << "two writers";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  }
  writer.Put("a", "1");
  writer.Finish();
  EXPECT_EQ(LmdbReader(At("db")).size(), 1);
}

// The file-size limit stands for a full disk: no root and no small disk are needed for it.
TEST_F(LmdbWriting, AFullDiskLeavesWhatWasCommitted) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit former{};
  getrlimit(RLIMIT_FSIZE, &former);
  rlimit small = former;
  for (const rlim_t limit : {rlim_t{300000}, rlim_t{500001}, rlim_t{700123}}) {
    small.rlim_cur = limit;
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string error = ErrorOf([&] { WriteUpTo(kRecords); });
    setrlimit(RLIMIT_FSIZE, &former);
    EXPECT_THAT(error, testing::AllOf(HasSubstr("db: cannot write records "), HasSubstr(" are free there)"),
                                      HasSubstr("make room and run the same command again")));
    const int64_t kept = Kept();
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, kRecords);
    EXPECT_EQ(kept % kBatch, 0);
    EXPECT_LE(fs::file_size(At("db.partial/data.mdb")), limit);
    EXPECT_EQ(fs::file_size(At("db.partial/data.mdb")) % 4096, 0U);
  }
  WriteUpTo(kRecords);
  WriteUpTo(kRecords, "whole");
  EXPECT_EQ(FilesOf(At("db")), FilesOf(At("whole")));
}

TEST_F(LmdbWriting, TooLittleRoomIsSaidFirst) {
  EXPECT_THAT(ErrorOf([&] { LmdbWriter writer(At("db"), {.identity = "{}", .expected_bytes = int64_t{1} << 60U}); }),
              testing::AllOf(HasSubstr("the records need about "), HasSubstr(" are free there")));
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace moka
