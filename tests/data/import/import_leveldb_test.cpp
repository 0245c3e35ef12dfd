// LevelDBs of Caffe's records, written by libleveldb as convert_imageset does it.
#include <fcntl.h>
#include <leveldb/db.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "core/text.h"
#include "data/import/import.h"
#include "data/records/datum_view.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LevelDbImports : public DataTest {
 protected:
  std::unique_ptr<leveldb::DB> Open(const std::string& name) const {
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 1 << 16;
    leveldb::DB* db = nullptr;
    EXPECT_TRUE(leveldb::DB::Open(options, At(name).string(), &db).ok());
    return std::unique_ptr<leveldb::DB>(db);
  }
  static std::string Key(int i) {
    std::string number = std::to_string(i);
    return StrCat(std::string(8 - number.size(), '0'), number, "_p", i, ".jpg");
  }
  void WriteMany(int count) const {
    const auto db = Open("ldb");
    for (int i = count; i-- > 0;) {  // not in the keys' order
      db->Put({}, Key(i), RawDatum(3, 16, 20, i, i % 10).SerializeAsString());
    }
  }
  std::map<std::string, std::string> FilesOf(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(At(name))) {
      files[entry.path().filename().string()] = ReadFile(entry.path());
    }
    return files;
  }
  std::string Source() const { return "leveldb:" + At("ldb").string(); }
};

TEST_F(LevelDbImports, RecordsStayAsTheyAre) {
  WriteMany(300);
  const auto before = FilesOf("ldb");
  ASSERT_GT(before.size(), 4U);  // tables, and records that are in the log alone
  const ImportReport report = Import(Source(), At("db"), {});
  EXPECT_EQ(report.records, 300);
  EXPECT_THAT(report.shapes, ElementsAre("3x16x20"));
  const LmdbReader reader(At("db"));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(reader.key(i), Key(i));
    ASSERT_EQ(reader.value(i), RawDatum(3, 16, 20, i, i % 10).SerializeAsString());
  }
  EXPECT_EQ(FilesOf("ldb"), before);
  EXPECT_FALSE(std::filesystem::exists(At("db.links")));
  EXPECT_EQ(Import(Source(), At("few"), {.limit = 7}).records, 7);
}

TEST_F(LevelDbImports, AnnotatedRecordsToo) {
  AnnotatedDatum record;
  *record.mutable_datum() = RawDatum(1, 2, 2, 5, 0);
  record.set_type(AnnotatedDatum::BBOX);
  Open("ldb")->Put({}, "a/b.jpg", record.SerializeAsString());
  Import(Source(), At("db"), {});
  EXPECT_EQ(LmdbReader(At("db")).key(0), "00000000_a/b.jpg");
  EXPECT_EQ(LmdbReader(At("db")).value(0), record.SerializeAsString());
}

TEST_F(LevelDbImports, BadRecordsAreNamed) {
  WriteMany(3);
  Datum broken = RawDatum(3, 16, 20, 1, 1);
  broken.set_encoded(true);
  Open("ldb")->Put({}, Key(1), broken.SerializeAsString());
  EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {}); }), testing::StartsWith("p1.jpg: "));
  const ImportReport report = Import(Source(), At("db"), {.on_bad_record = ImportOptions::OnBadRecord::kSkip});
  EXPECT_EQ(report.records, 2);
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_THAT(report.skipped[0], testing::StartsWith("p1.jpg: "));
}

TEST_F(LevelDbImports, CutImportsGoOn) {
  WriteMany(300);
  Import(Source(), At("whole"), {.batch_records = 16});
  int64_t asked = 0;
  EXPECT_THAT(
      ErrorOf([&] { Import(Source(), At("db"), {.batch_records = 16, .wants_stop = [&] { return ++asked > 400; }}); }),
      HasSubstr("interrupted after"));
  const ImportReport report = Import(Source(), At("db"), {.batch_records = 16});
  EXPECT_GT(report.resumed_at, 0);
  EXPECT_EQ(ReadFile(At("db/data.mdb")), ReadFile(At("whole/data.mdb")));
}

TEST_F(LevelDbImports, FaultsAreNamed) {
  std::filesystem::create_directories(At("ldb"));
  EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {}); }), HasSubstr("ldb is no LevelDB: it has no file CURRENT"));
  std::filesystem::remove_all(At("ldb"));
  WriteMany(300);
  EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {.height = 8, .width = 8}); }),
              HasSubstr("copied as they are and in their order; leave out --resize"));
  EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {.shuffle_seed = 1}); }), HasSubstr("moka data shuffle"));
  for (const auto& entry : std::filesystem::directory_iterator(At("ldb"))) {
    if (entry.path().extension() != ".ldb") continue;
    std::string bytes = ReadFile(entry.path());
    bytes[bytes.size() / 3] ^= 0x55;
    Write("ldb/" + entry.path().filename().string(), bytes);
  }
  EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {}); }), HasSubstr("ldb: Corruption: "));
  EXPECT_FALSE(std::filesystem::exists(At("db")));
  EXPECT_FALSE(std::filesystem::exists(At("db.links")));
}

// LevelDB itself leaves the end of a cut log out without a word.
TEST_F(LevelDbImports, ACutLogIsTold) {
  WriteMany(9);
  const auto told = [&](const std::string& out) {
    testing::internal::CaptureStderr();
    Import(Source(), At(out), {});
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told("whole").find("ends inside"), std::string::npos);
  for (const auto& [name, bytes] : FilesOf("ldb")) {
    if (!name.ends_with(".log")) continue;
    Write("ldb/" + name, bytes.substr(0, bytes.size() - 100));
    EXPECT_THAT(told("cut"), HasSubstr(StrCat("ldb: ", name, " ends inside of a record")));
    EXPECT_EQ(LmdbReader(At("cut")).size(), 8);
    Write("ldb/" + name, bytes.substr(0, bytes.size() / 9 * 5 + 3));  // inside of a head
    EXPECT_THAT(told("head"), HasSubstr("ends inside of a record"));
  }
}

// A process that holds LevelDB's lock on a folder as long as it lives.
class Holder {
 public:
  explicit Holder(const std::filesystem::path& folder) {
    EXPECT_EQ(pipe(ready_), 0);
    EXPECT_EQ(pipe(done_), 0);
    child_ = fork();
    if (child_ != 0) {
      char byte = 0;
      EXPECT_EQ(read(ready_[0], &byte, 1), 1);
      EXPECT_EQ(byte, 'y');
      return;
    }
    const int fd = open((folder / "LOCK").c_str(), O_RDWR | O_CREAT, 0600);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    char byte = fcntl(fd, F_SETLK, &lock) == 0 ? 'y' : 'n';
    const bool is_told = write(ready_[1], &byte, 1) == 1 && read(done_[0], &byte, 1) == 1;
    _exit(is_told ? 0 : 1);
  }
  ~Holder() {
    EXPECT_EQ(write(done_[1], "", 1), 1);
    int status = 0;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }

 private:
  int ready_[2] = {};
  int done_[2] = {};
  pid_t child_ = 0;
};

TEST_F(LevelDbImports, WhatAnotherProcessHasOpenIsRefused) {
  WriteMany(3);
  {
    const Holder holder(At("ldb"));
    EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {}); }), HasSubstr("another process has the LevelDB"));
  }
  std::filesystem::create_directories(At("db.links"));
  {
    const Holder holder(At("db.links"));
    EXPECT_THAT(ErrorOf([&] { Import(Source(), At("db"), {}); }), HasSubstr("another process imports a LevelDB"));
  }
  Write("db.links/000005.ldb", "left by an import that was killed");
  EXPECT_EQ(Import(Source(), At("db"), {}).records, 3);
}

}  // namespace
}  // namespace moka
