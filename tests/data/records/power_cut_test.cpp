// A power cut in an import loses whole batches at most: the writes of the LMDB library to data.mdb are recorded, then
// files are built as a disk could hold them at any moment, each 4-KiB page of a write that no sync followed there or
// not. Each must open as the whole batches written so far, and an import must go on from it to the database of one that
// was not cut. Model: fdatasync makes all earlier writes last; a write through a descriptor opened with O_DSYNC lasts
// by itself.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>

#include "core/rng.h"
#include "core/text.h"
#include "tests/data/data_fixture.h"

namespace {

struct Event {
  bool is_sync = false;     // of all before it
  bool is_lasting = false;  // by itself
  off_t offset = 0;
  std::string bytes = {};
};
std::vector<Event>* recorded = nullptr;  // none: nothing is recorded

bool IsData(int fd) {
  std::array<char, 4096> name{};
  const ssize_t n = readlink(moka::StrCat("/proc/self/fd/", fd).c_str(), name.data(), name.size());
  return n > 0 && std::string_view(name.data(), static_cast<size_t>(n)).ends_with("/data.mdb");
}

void RecordWrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (recorded == nullptr || !IsData(fd)) return;
  const bool is_lasting = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
  recorded->push_back({false, is_lasting, offset, std::string(static_cast<const char*>(bytes), count)});
}

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// The library's calls come here before they reach the system.
extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  RecordWrite(fd, bytes, count, offset);
  return next(fd, bytes, count, offset);
}

extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* const next = Next<ssize_t(int, const iovec*, int)>("writev");
  off_t offset = lseek(fd, 0, SEEK_CUR);
  for (int i = 0; i < count; ++i) {
    RecordWrite(fd, parts[i].iov_base, parts[i].iov_len, offset);
    offset += static_cast<off_t>(parts[i].iov_len);
  }
  return next(fd, parts, count);
}

extern "C" int fdatasync(int fd) {
  static auto* const next = Next<int(int)>("fdatasync");
  if (recorded != nullptr && IsData(fd)) recorded->push_back({.is_sync = true});
  return next(fd);
}

extern "C" int fsync(int fd) {
  static auto* const next = Next<int(int)>("fsync");
  if (recorded != nullptr && IsData(fd)) recorded->push_back({.is_sync = true});
  return next(fd);
}

namespace moka {
namespace {

constexpr int64_t kRecords = 150;
constexpr int64_t kBatch = 16;
constexpr size_t kPage = 4096;

std::string ValueOf(int64_t i) { return std::string(static_cast<size_t>(100 + i * 37 % 6000), static_cast<char>(i)); }

class PowerCuts : public DataTest {
 protected:
  void Import(const std::string& name) const {
    LmdbWriter writer(At(name), {.identity = "{}", .batch_records = kBatch});
    for (int64_t i = writer.entries(); i < kRecords; ++i) writer.Put(LmdbKey(i, "x"), ValueOf(i));
    writer.Finish();
  }
  // The file after `moment` events, unsynced pages by chance.
  static std::string FileAt(const std::vector<Event>& events, size_t moment, RandomStream& random) {
    size_t synced = 0;
    for (size_t i = 0; i < moment; ++i) synced = events[i].is_sync ? i : synced;
    std::string file;
    for (size_t i = 0; i < moment; ++i) {
      const Event& event = events[i];
      for (size_t at = 0; at < event.bytes.size(); at += kPage) {
        if (i > synced && !event.is_lasting && random.Below(2) == 0) continue;
        const std::string_view page = std::string_view(event.bytes).substr(at, kPage);
        const size_t offset = static_cast<size_t>(event.offset) + at;
        if (file.size() < offset + page.size()) file.resize((offset + page.size() + kPage - 1) / kPage * kPage);
        file.replace(offset, page.size(), page);
      }
    }
    return file;
  }
};

TEST_F(PowerCuts, LeaveWholeBatchesAtAnyMoment) {
  std::vector<Event> events;
  recorded = &events;
  Import("whole");
  recorded = nullptr;
  const std::string whole = ReadFile(At("whole/data.mdb"));
  size_t first = 0;  // the database takes its name after its first sync
  while (first < events.size() && !events[first].is_sync) ++first;
  ASSERT_GT(events.size(), first + 3 * static_cast<size_t>(kRecords / kBatch)) << "the library's calls are not seen";
  RandomStream random(11, 1);
  int64_t least = 0;  // batches that a commit has promised
  for (size_t moment = first + 1; moment <= events.size(); ++moment) {
    if (moment > first + 1 && events[moment - 1].is_lasting) ++least;
    for (int trial = 0; trial < 4; ++trial) {
      Write("db.partial/data.mdb", FileAt(events, moment, random));
      Write("db.partial/import.json", "{}");
      const LmdbReader reader(At("db.partial"));
      ASSERT_TRUE(reader.size() % kBatch == 0 || reader.size() == kRecords) << reader.size();
      ASSERT_GE(reader.size(), std::min(least * kBatch, kRecords)) << "a promised batch is gone";
      for (int64_t i = 0; i < reader.size(); ++i) {
        ASSERT_EQ(reader.key(i), LmdbKey(i, "x"));
        ASSERT_EQ(reader.value(i), ValueOf(i));
      }
    }
    Import("db");
    ASSERT_TRUE(ReadFile(At("db/data.mdb")) == whole) << "after a cut at event " << moment;
    std::filesystem::remove_all(At("db"));
  }
  EXPECT_EQ(least, (kRecords + kBatch - 1) / kBatch);
}

}  // namespace
}  // namespace moka
