// The checked walk against liblmdb's own cursor, on databases of many shapes.
#include "data/records/lmdb_file.h"

#include <lmdb.h>

#include "core/checksum.h"
#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

using LmdbFile = DataTest;

std::string ValueOf(int64_t i, size_t bytes) { return std::string(bytes, static_cast<char>('a' + i % 26)); }

void WriteRecords(const fs::path& path, int64_t count, size_t bytes) {
  LmdbWriter writer(path);
  for (int64_t i = 0; i < count; ++i) writer.Put(LmdbKey(i, "x"), ValueOf(i, bytes + static_cast<size_t>(i % 7)));
  writer.Finish();
}

// All records by liblmdb's own cursor.
std::vector<std::pair<std::string, std::string>> ReadByLibrary(const fs::path& path) {
  std::vector<std::pair<std::string, std::string>> records;
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_cursor* cursor = nullptr;
  MDB_dbi dbi = 0;
  EXPECT_EQ(mdb_env_create(&env), 0);
  EXPECT_EQ(mdb_env_open(env, path.c_str(), MDB_RDONLY | MDB_NOLOCK, 0644), 0);
  EXPECT_EQ(mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn), 0);
  EXPECT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  EXPECT_EQ(mdb_cursor_open(txn, dbi, &cursor), 0);
  MDB_val k;
  MDB_val v;
  while (mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0) {
    records.emplace_back(std::string(static_cast<char*>(k.mv_data), k.mv_size),
                         std::string(static_cast<char*>(v.mv_data), v.mv_size));
  }
  mdb_cursor_close(cursor);
  mdb_txn_abort(txn);
  mdb_env_close(env);
  return records;
}

class LmdbSizes : public DataTest, public testing::WithParamInterface<std::pair<int64_t, size_t>> {};

TEST_P(LmdbSizes, ReaderAgreesWithLiblmdb) {
  const auto [count, bytes] = GetParam();
  WriteRecords(At("db"), count, bytes);
  const LmdbReader reader(At("db"));
  const auto expected = ReadByLibrary(At("db"));
  ASSERT_EQ(reader.size(), count);
  ASSERT_EQ(expected.size(), static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(reader.key(i), expected[static_cast<size_t>(i)].first);
    ASSERT_EQ(reader.value(i), expected[static_cast<size_t>(i)].second);
    ASSERT_EQ(reader.Find(reader.key(i)), i);
    ASSERT_EQ(reader.checksums()[static_cast<size_t>(i)], Crc32c(reader.value(i)));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LmdbSizes,
                         testing::Values(std::pair(0, 0), std::pair(1, 0), std::pair(1, 10), std::pair(3, 5000),
                                         std::pair(200, 800), std::pair(2000, 20), std::pair(300, 70000),
                                         std::pair(30000, 3)));

TEST_F(LmdbFile, ReadsADatabaseWrittenInRandomOrderWithDeletions) {
  fs::create_directories(At("db"));
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_set_mapsize(env, size_t{64} << 20U), 0);
  ASSERT_EQ(mdb_env_open(env, At("db").c_str(), 0, 0644), 0);
  RandomStream random(9, 9);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
    ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
    for (int i = 0; i < 100; ++i) {
      std::string key = StrCat("key", random.Below(700));
      std::string value(random.Below(6000), 'v');
      MDB_val k{key.size(), key.data()};
      MDB_val v{value.size(), value.data()};
      if (random.Below(4) == 0) {
        mdb_del(txn, dbi, &k, nullptr);
      } else {
        ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
      }
    }
    ASSERT_EQ(mdb_txn_commit(txn), 0);
  }
  mdb_env_close(env);
  const LmdbReader reader(At("db"));
  const auto expected = ReadByLibrary(At("db"));
  ASSERT_EQ(reader.size(), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < reader.size(); ++i) {
    ASSERT_EQ(reader.key(i), expected[static_cast<size_t>(i)].first);
    ASSERT_EQ(reader.value(i), expected[static_cast<size_t>(i)].second);
  }
}

TEST_F(LmdbFile, MapGrowsByItself) {
  LmdbWriter writer(At("db"));
  const std::string value(size_t{3} << 20U, 'z');
  for (int64_t i = 0; i < 30; ++i) writer.Put(LmdbKey(i, "big"), value);  // 90 MB, above the first map of 32
  writer.Finish();
  const LmdbReader reader(At("db"));
  EXPECT_EQ(reader.size(), 30);
  EXPECT_EQ(reader.value(29), value);
}

TEST_F(LmdbFile, KeysSortAsNumbersAndFitLmdb) {
  EXPECT_EQ(LmdbKey(42, "cat.jpg"), "00000042_cat.jpg");
  EXPECT_EQ(LmdbKey(1, std::string(600, 'a') + "end").size(), 511U);
  EXPECT_TRUE(LmdbKey(1, std::string(600, 'a') + "end").ends_with("end"));
  EXPECT_THAT(ErrorOf([] { LmdbKey(100000000, "x"); }), testing::HasSubstr("eight-digit key"));
}

TEST_F(LmdbFile, WriterWithoutFinishLeavesNothing) {
  {
    LmdbWriter writer(At("db"));
    writer.Put("a", "1");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(LmdbFile, WriterRefusesUnorderedKeysAndTakenNames) {
  LmdbWriter writer(At("db"));
  writer.Put("b", "1");
  EXPECT_THAT(ErrorOf([&] { writer.Put("a", "2"); }), testing::HasSubstr("key a does not follow b"));
  EXPECT_THAT(ErrorOf([&] { writer.Put("", "2"); }), testing::HasSubstr("key of 0 bytes"));
  Write("taken", "x");
  EXPECT_THAT(ErrorOf([&] { LmdbWriter other(At("taken")); }), testing::HasSubstr("exists already"));
}

TEST_F(LmdbFile, NamesWhatIsMissing) {
  EXPECT_THAT(ErrorOf([&] { LmdbReader reader(At("none")); }), testing::HasSubstr("No such file"));
  fs::create_directories(At("folder/data.mdb"));
  EXPECT_THAT(ErrorOf([&] { LmdbReader reader(At("folder")); }), testing::HasSubstr("is not a regular file"));
  Write("text/data.mdb", std::string(9000, 'x'));
  EXPECT_THAT(ErrorOf([&] { LmdbReader reader(At("text")); }), testing::HasSubstr("not an LMDB data file"));
  Write("short/data.mdb", "abc");
  EXPECT_THAT(ErrorOf([&] { LmdbReader reader(At("short")); }), testing::HasSubstr("only 3 bytes"));
}

TEST_F(LmdbFile, HalfCopiedFolderIsRefusedByItsMark) {
  WriteRecords(At("db"), 10, 20);
  WriteRecords(At("other"), 11, 20);
  fs::copy_file(At("other/data.mdb"), At("db/data.mdb"), fs::copy_options::overwrite_existing);
  EXPECT_THAT(ErrorOf([&] { LmdbReader reader(At("db")); }), testing::HasSubstr("moka.json says 10 records"));
}

// Opens a file and touches every byte it offers: a sound read or an error, never a signal.
bool OpensAndReads(const fs::path& path) {
  try {
    const LmdbReader reader(path);
    uint32_t sum = 0;
    for (int64_t i = 0; i < reader.size(); ++i) sum += Crc32c(reader.key(i)) + Crc32c(reader.value(i));
    EXPECT_GE(sum, 0U);
    return true;
  } catch (const Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
    return false;
  }
}

TEST_F(LmdbFile, EveryTruncationIsRefused) {
  WriteRecords(At("db"), 60, 700);
  const std::string whole = ReadFile(At("db/data.mdb"));
  for (size_t bytes = 0; bytes < whole.size(); bytes += 512) {
    Write("cut", std::string_view(whole).substr(0, bytes));
    ASSERT_FALSE(OpensAndReads(At("cut"))) << bytes;
  }
}

TEST_F(LmdbFile, DamageAnywhereIsAnErrorOrASoundRead) {
  WriteRecords(At("db"), 120, 900);
  const std::string whole = ReadFile(At("db/data.mdb"));
  Write("bad", whole);
  std::fstream file(At("bad"), std::ios::binary | std::ios::in | std::ios::out);
  const auto put_page = [&](const std::string& bytes, uint64_t page) {
    file.seekp(static_cast<std::streamoff>(page * 4096));
    file.write(bytes.data() + page * 4096, 4096).flush();
  };
  RandomStream random(7, 7);
  int refused = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::string bytes = whole;
    const uint64_t page = random.Below(bytes.size() / 4096);
    // Mostly headers and slots, where the structure is.
    const uint64_t at = page * 4096 + (trial % 2 == 0 ? random.Below(160) : random.Below(4096));
    bytes[at] = static_cast<char>(random.Bits());
    if (trial % 3 == 0) bytes.replace(page * 4096 + 8, 4, std::string(4, static_cast<char>(random.Bits())));
    put_page(bytes, page);
    if (!OpensAndReads(At("bad"))) ++refused;
    put_page(whole, page);
  }
  EXPECT_GT(refused, kTrials / 10);
}

TEST_F(LmdbFile, ZeroedTailIsRefused) {
  WriteRecords(At("db"), 400, 300);
  std::string bytes = ReadFile(At("db/data.mdb"));
  std::fill(bytes.begin() + static_cast<int64_t>(bytes.size() / 2), bytes.end(), '\0');
  Write("bad", bytes);
  EXPECT_THAT(ErrorOf([&] { LmdbReader reader(At("bad")); }), testing::HasSubstr("damaged LMDB: "));
}

}  // namespace
}  // namespace moka
