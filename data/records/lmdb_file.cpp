// The tree was walked and checked by lmdb_walk.cpp; reading a record is then a bounded view into the map.
#include "data/records/lmdb_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/checksum.h"
#include "core/device/memory.h"
#include "core/error.h"
#include "core/file.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kDataName = "data.mdb";
constexpr const char* kMarkName = "moka.json";
constexpr const char* kChecksumName = "records.crc32c";

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

fs::path DataFileOf(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? path / kDataName : path;
}

// Returns a hint for where there is no database.
std::string HowToMakeLmdb(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path / "CURRENT", ignored)) return "`moka data import` makes one";
  return StrCat("the folder holds a LevelDB; `moka data import leveldb:", Printable(path.string()),
                " OUT` makes an LMDB of it");
}

OpenFile OpenDatabase(const fs::path& path) {
  const fs::path data = DataFileOf(path);
  std::error_code ignored;
  try {
    return OpenFile::ForReading(data);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoInput || fs::exists(fs::symlink_status(data, ignored))) throw;
    throw Error(error.kind(), {}, StrCat("cannot open LMDB ", data.string(), ": No such file or directory"),
                HowToMakeLmdb(path));
  }
}

}  // namespace

LmdbReader::LmdbReader(const fs::path& path, Use use, int64_t memory_bytes) : path_(path), checks_(use.checks) {
  const fs::path data = DataFileOf(path);
  OpenFile file = OpenDatabase(path);
  file_bytes_ = file.bytes();
  entries_ = WalkLmdb(file.fd(), file_bytes_, path.string());
  ReadMark();
  if (entries_.empty()) return;
  if (checks_ == Checks::kFirstRead && !checksums_.empty()) {
    seen_ = std::make_unique<std::atomic<bool>[]>(entries_.size());
  }
  map_ = MappedFile(file.Release(), file_bytes_, data);
  // Read-ahead fetches pages a shuffled reader will not use soon; it only hurts when they do not all fit.
  reads_ahead_ = use.access == Access::kShuffled &&
                 file_bytes_ > (memory_bytes > 0 ? memory_bytes : ReadMemoryFacts("/").available_bytes);
  if (reads_ahead_) madvise(const_cast<char*>(map_.data()), static_cast<size_t>(file_bytes_), MADV_RANDOM);
}

void LmdbReader::WillNeed(int64_t i) const {
  const LmdbEntry& entry = entries_[static_cast<size_t>(i)];
  const int64_t begin = entry.value_offset / PageBytes() * PageBytes();
  // A hint: what it does not bring is read when it is used.
  madvise(const_cast<char*>(map_.data()) + begin, static_cast<size_t>(entry.value_offset - begin + entry.value_bytes),
          MADV_WILLNEED);
}

void TouchPages(std::string_view bytes) {
  const volatile char* data = bytes.data();  // reads that no compiler leaves out
  const auto step = static_cast<size_t>(PageBytes());
  for (size_t i = 0; i < bytes.size(); i += step) static_cast<void>(data[i]);
}

// Databases made by `moka data import` carry a mark with their record count; a mismatch is a half-copied folder.
void LmdbReader::ReadMark() {
  const fs::path mark = path_ / kMarkName;
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored) || !fs::exists(mark, ignored)) return;
  constexpr int64_t kMarkLimit = int64_t{1} << 20U;
  const Json read = Json::parse(ReadFile(mark, kMarkLimit), nullptr, /*allow_exceptions=*/false);
  if (!read.is_object() || !read.contains("entries") || !read["entries"].is_number_integer()) {
    throw Error(ErrorKind::kBadData, {}, StrCat(mark.string(), ": not a mark of `moka data import`"), "import again");
  }
  if (read["entries"].get<int64_t>() != size()) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(path_.string(), ": damaged LMDB: ", kMarkName, " says ", read["entries"].get<int64_t>(),
                       " records, the database holds ", size()),
                "copy or import the folder again");
  }
  const fs::path sums = path_ / kChecksumName;
  if (!fs::exists(sums, ignored)) return;
  const std::string bytes = ReadFile(sums, size() * 4 + 1);
  if (static_cast<int64_t>(bytes.size()) != size() * 4) {
    throw Error(ErrorKind::kBadData, StrCat(sums.string(), " has ", bytes.size(), " bytes, expected ", size() * 4));
  }
  checksums_.resize(entries_.size());
  if (!bytes.empty()) std::memcpy(checksums_.data(), bytes.data(), bytes.size());
}

std::string_view LmdbReader::key(int64_t i) const {
  const LmdbEntry& entry = entries_[static_cast<size_t>(i)];
  return {map_.data() + entry.key_offset, entry.key_bytes};
}

std::string_view LmdbReader::unchecked_value(int64_t i) const {
  const LmdbEntry& entry = entries_[static_cast<size_t>(i)];
  return {map_.data() + entry.value_offset, entry.value_bytes};
}

std::string_view LmdbReader::value(int64_t i) const {
  const std::string_view bytes = unchecked_value(i);
  CheckValue(i, bytes);
  return bytes;
}

// A file that was cut is told apart from a record that is bad: the first is nothing to skip.
void LmdbReader::CheckValue(int64_t i, std::string_view bytes) const {
  const auto at = static_cast<size_t>(i);
  const bool is_checked = !checksums_.empty() && checks_ != Checks::kNoRead && !(seen_ != nullptr && seen_[at]);
  if (!is_checked) {
    TouchPages(bytes);
    return map_.Check();
  }
  const uint32_t found = Crc32c(bytes);
  map_.Check();
  if (found != checksums_[at]) {
    throw Error(ErrorKind::kBadData, {}, "its bytes are not those that were imported (their checksum differs)",
                "`moka data verify` names all such records; import the data again");
  }
  if (seen_ != nullptr) seen_[at] = true;
}

void LmdbReader::CheckFile() const {
  if (checksums_.empty() || checks_ != Checks::kEveryRead) return map_.CheckUnchanged();
  map_.Check();
}

int64_t LmdbReader::Find(std::string_view wanted) const {
  int64_t low = 0;
  int64_t high = size();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (key(middle) < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < size() && key(low) == wanted ? low : -1;
}

std::string LmdbReader::NameOf(int64_t i) const {
  return StrCat("record \"", Printable(key(i)), "\" (index ", i, ") of ", path_.string());
}

int64_t LmdbReader::MostOf(const std::function<int64_t(std::string_view value)>& count) const {
  int64_t most = 0;
  for (int64_t i = 0; i < size(); ++i) {
    try {
      most = std::max(most, count(unchecked_value(i)));
    } catch (const Error&) {
      continue;
    }
  }
  return most;
}

}  // namespace moka
