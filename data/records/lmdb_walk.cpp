// Reads pages by pread and checks every number before it is followed: depth, page kind, offsets and sizes. A page met
// twice or out of order of keys is an error, so a damaged file ends the walk and not the process.
#include "data/records/lmdb_walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

// LMDB 0.9's layout on a 64-bit machine (mdb.c: MDB_page, MDB_meta, MDB_db, MDB_node).
constexpr uint32_t kMagic = 0xBEEFC0DE;
constexpr uint32_t kDataVersion = 1;
constexpr int64_t kPageHeader = 16;  // u64 page number, u16 pad, u16 flags, u16 lower, u16 upper
constexpr int64_t kFlagsAt = 10;
constexpr int64_t kLowerAt = 12;
constexpr int64_t kUpperAt = 14;
constexpr int64_t kMetaBytes = 136;
constexpr int64_t kMainDbAt = 24 + 48;  // inside MDB_meta: magic, version, address, map size, free list's MDB_db
constexpr int64_t kLastPageAt = 120;
constexpr int64_t kTransactionAt = 128;
constexpr int64_t kNodeHeader = 8;  // u16 low, u16 high, u16 flags, u16 key bytes
constexpr uint64_t kNoPage = UINT64_MAX;
constexpr int kMaxDepth = 32;  // LMDB's own cursor stack
constexpr int kMaxKeyBytes = 511;
constexpr uint64_t kMostReserved = uint64_t{1} << 20U;  // for what the file claims to hold
constexpr uint64_t kMostValueBytes = uint64_t{256} << 20U;
enum PageFlag : uint16_t { kBranch = 0x01, kLeaf = 0x02, kMeta = 0x08, kDirty = 0x10 };
enum NodeFlag : uint16_t { kBigData = 0x01 };

template <class T>
T LoadNumber(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

struct Meta {
  int64_t page_bytes = 0;
  uint16_t main_flags = 0;
  uint16_t depth = 0;
  uint64_t entries = 0;
  uint64_t root = kNoPage;
  uint64_t last_page = 0;
  uint64_t transaction = 0;
};

class Walk {
 public:
  Walk(int fd, int64_t file_bytes, const std::string& path) : fd_(fd), file_bytes_(file_bytes), path_(path) {}

  std::vector<LmdbEntry> Run() {
    meta_ = NewestMeta();
    CheckMeta();
    if (meta_.root == kNoPage) {
      if (meta_.entries != 0) Damaged(StrCat("it claims ", meta_.entries, " records but has no root page"));
      return {};
    }
    seen_.assign(static_cast<size_t>(meta_.last_page + 1), false);
    Claim(0, 2);
    pages_.resize(meta_.depth);
    for (std::string& page : pages_) page.resize(static_cast<size_t>(meta_.page_bytes));
    entries_.reserve(std::min(meta_.entries, kMostReserved));
    VisitPage(meta_.root, 0);
    if (entries_.size() != meta_.entries) {
      Damaged(StrCat("it claims ", meta_.entries, " records but its tree holds ", entries_.size()));
    }
    return std::move(entries_);
  }

 private:
  [[noreturn]] void Damaged(const std::string& reason) const {
    throw Error(ErrorKind::kBadData, {}, StrCat(path_, ": damaged LMDB: ", reason), "import the data again");
  }

  void ReadAt(int64_t offset, char* data, int64_t bytes) const {
    const int64_t got = moka::ReadAt(fd_, offset, data, bytes, path_);
    if (got < bytes) Damaged(StrCat("the file ends at byte ", offset + got));
  }

  // Page 0 gives the page size; the second meta page follows it, and the higher transaction is the live one.
  Meta NewestMeta() const {
    if (file_bytes_ < kPageHeader + kMetaBytes) Damaged(StrCat("only ", file_bytes_, " bytes, no meta page"));
    const Meta first = ReadMeta(0, 0);
    const Meta second = ReadMeta(first.page_bytes, 1);
    if (second.page_bytes != first.page_bytes) Damaged("its two meta pages disagree about the page size");
    return second.transaction > first.transaction ? second : first;
  }

  Meta ReadMeta(int64_t offset, uint64_t page) const {
    std::array<char, kPageHeader + kMetaBytes> bytes{};
    if (offset + static_cast<int64_t>(bytes.size()) > file_bytes_) Damaged("its second meta page is missing");
    ReadAt(offset, bytes.data(), static_cast<int64_t>(bytes.size()));
    const char* meta = bytes.data() + kPageHeader;
    if (LoadNumber<uint32_t>(meta) != kMagic) {
      throw Error(ErrorKind::kBadData,
                  StrCat(path_, ": not an LMDB data file (meta page ", page, " has no LMDB magic)"));
    }
    if (LoadNumber<uint32_t>(meta + 4) != kDataVersion) {
      Damaged(StrCat("format version ", LoadNumber<uint32_t>(meta + 4), ", expected ", kDataVersion));
    }
    if ((LoadNumber<uint16_t>(bytes.data() + kFlagsAt) & kMeta) == 0)
      Damaged(StrCat("page ", page, " is not a meta page"));
    Meta m;
    m.page_bytes = LoadNumber<uint32_t>(meta + 24);
    if (m.page_bytes < 512 || m.page_bytes > 65536 || !std::has_single_bit(static_cast<uint64_t>(m.page_bytes))) {
      Damaged(StrCat("page size ", m.page_bytes, ", expected a power of two in 512..65536"));
    }
    m.main_flags = LoadNumber<uint16_t>(meta + kMainDbAt + 4);
    m.depth = LoadNumber<uint16_t>(meta + kMainDbAt + 6);
    m.entries = LoadNumber<uint64_t>(meta + kMainDbAt + 32);
    m.root = LoadNumber<uint64_t>(meta + kMainDbAt + 40);
    m.last_page = LoadNumber<uint64_t>(meta + kLastPageAt);
    m.transaction = LoadNumber<uint64_t>(meta + kTransactionAt);
    return m;
  }

  void CheckMeta() const {
    const int64_t page = meta_.page_bytes;
    if (file_bytes_ % page != 0) {
      Damaged(StrCat(file_bytes_, " bytes are not a whole number of ", page, "-byte pages (truncated copy?)"));
    }
    const auto pages = static_cast<uint64_t>(file_bytes_ / page);
    if (pages < 2) Damaged("fewer than two pages");
    if (meta_.last_page >= pages) {
      Damaged(StrCat("its last page is ", meta_.last_page, " but the file has ", pages, " pages (truncated copy?)"));
    }
    if (meta_.main_flags != 0) {
      throw Error(ErrorKind::kBadData, StrCat(path_, ": an LMDB with special keys (flags ", meta_.main_flags,
                                              "), expected a plain one of records"));
    }
    if (meta_.root == kNoPage) return;
    if (meta_.depth < 1 || meta_.depth > kMaxDepth) Damaged(StrCat("tree depth ", meta_.depth));
    if (meta_.entries > static_cast<uint64_t>(file_bytes_ / (kNodeHeader + 3))) {
      Damaged(StrCat("it claims ", meta_.entries, " records in ", file_bytes_, " bytes"));
    }
  }

  // Marks pages as used. A page that two parents claim would make the walk unbounded.
  void Claim(uint64_t page, uint64_t count) {
    if (page > meta_.last_page || count > meta_.last_page - page + 1) {
      Damaged(StrCat("page ", page, " (", count, " pages) lies outside its ", meta_.last_page + 1, " pages"));
    }
    for (uint64_t i = page; i < page + count; ++i) {
      if (seen_[i]) Damaged(StrCat("page ", i, " is used twice"));
      seen_[i] = true;
    }
  }

  void VisitPage(uint64_t number, int level) {
    Claim(number, 1);
    std::string& page = pages_[static_cast<size_t>(level)];
    const auto base = static_cast<int64_t>(number) * meta_.page_bytes;
    ReadAt(base, page.data(), meta_.page_bytes);
    if (LoadNumber<uint64_t>(page.data()) != number) Damaged(StrCat("page ", number, " carries another number"));
    const auto flags = static_cast<uint16_t>(LoadNumber<uint16_t>(page.data() + kFlagsAt) & ~kDirty);
    const bool leaf = level + 1 == meta_.depth;
    if (flags != (leaf ? kLeaf : kBranch)) {
      Damaged(StrCat("page ", number, " has flags ", flags, ", expected a ", leaf ? "leaf" : "branch", " page"));
    }
    const int64_t lower = LoadNumber<uint16_t>(page.data() + kLowerAt);
    const int64_t upper = LoadNumber<uint16_t>(page.data() + kUpperAt);
    if (lower < kPageHeader + 2 || lower % 2 != 0 || upper < lower || upper > meta_.page_bytes) {
      Damaged(StrCat("page ", number, " has free space ", lower, "..", upper));
    }
    for (int64_t slot = kPageHeader; slot < lower; slot += 2) {
      const int64_t at = LoadNumber<uint16_t>(page.data() + slot);
      if (at < upper || at % 2 != 0 || at + kNodeHeader > meta_.page_bytes) {
        Damaged(StrCat("page ", number, " has a record at ", at));
      }
      if (leaf) {
        VisitRecord(page.data(), base, at);
      } else {
        const char* node = page.data() + at;
        VisitPage(LoadNumber<uint16_t>(node) | uint64_t{LoadNumber<uint16_t>(node + 2)} << 16U |
                      uint64_t{LoadNumber<uint16_t>(node + 4)} << 32U,
                  level + 1);
      }
    }
  }

  void VisitRecord(const char* page, int64_t base, int64_t at) {
    const char* node = page + at;
    const uint64_t bytes = LoadNumber<uint16_t>(node) | uint64_t{LoadNumber<uint16_t>(node + 2)} << 16U;
    const uint16_t flags = LoadNumber<uint16_t>(node + 4);
    const uint16_t key_bytes = LoadNumber<uint16_t>(node + 6);
    const int64_t data_at = at + kNodeHeader + key_bytes;
    if ((flags & ~kBigData) != 0) {
      throw Error(ErrorKind::kBadData, StrCat(path_, ": an LMDB with sub-databases, expected a plain one of records"));
    }
    const int64_t inline_bytes = (flags & kBigData) != 0 ? 8 : static_cast<int64_t>(bytes);
    if (key_bytes < 1 || key_bytes > kMaxKeyBytes || data_at + inline_bytes > meta_.page_bytes) {
      Damaged(StrCat("record ", entries_.size(), " (key ", key_bytes, ", value ", bytes, " bytes) leaves its page"));
    }
    int64_t value_offset = base + data_at;
    if ((flags & kBigData) != 0) {
      const auto first = LoadNumber<uint64_t>(page + data_at);
      const auto page_bytes = static_cast<uint64_t>(meta_.page_bytes);
      Claim(first, (static_cast<uint64_t>(kPageHeader) + bytes + page_bytes - 1) / page_bytes);
      value_offset = static_cast<int64_t>(first) * meta_.page_bytes + kPageHeader;
    }
    if (bytes > kMostValueBytes) {
      throw Error(ErrorKind::kBadData,
                  StrCat(path_, ": record ", entries_.size(), " has ", BytesText(static_cast<int64_t>(bytes)),
                         ", more than the limit of ", BytesText(static_cast<int64_t>(kMostValueBytes))));
    }
    const std::string_view key(node + kNodeHeader, key_bytes);
    if (!entries_.empty() && key <= last_key_)
      Damaged(StrCat("the key of record ", entries_.size(), " is out of order"));
    last_key_.assign(key);
    if (entries_.size() == meta_.entries)
      Damaged(StrCat("it claims ", meta_.entries, " records but its tree holds more"));
    entries_.push_back({base + at + kNodeHeader, value_offset, static_cast<uint32_t>(bytes), key_bytes});
  }

  int fd_;
  int64_t file_bytes_;
  const std::string& path_;
  Meta meta_;
  std::vector<bool> seen_;
  std::vector<std::string> pages_;  // one buffer a level
  std::string last_key_;
  std::vector<LmdbEntry> entries_;
};

}  // namespace

std::vector<LmdbEntry> WalkLmdb(int fd, int64_t file_bytes, const std::string& path) {
  return Walk(fd, file_bytes, path).Run();
}

}  // namespace moka
