#include "data/lmdb_file.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kDataName = "data.mdb";
constexpr const char* kMarkName = "moka.json";
constexpr const char* kChecksumName = "records.crc32c";
constexpr int64_t kMaxKeyBytes = 511;
constexpr int64_t kBatchRecords = 4096;
constexpr int64_t kBatchBytes = int64_t{64} << 20U;

std::string Reason() { return std::strerror(errno); }  // NOLINT(concurrency-mt-unsafe): glibc's is per thread

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

// What programs can have without swapping, the page cache included; half of the memory where the system does not say.
int64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return sysconf(_SC_PHYS_PAGES) * PageBytes() / 2;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

fs::path DataFileOf(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? path / kDataName : path;
}

void Check(int code, const fs::path& path, std::string_view doing) {
  if (code == MDB_SUCCESS) return;
  throw Error(ErrorKind::kIo, StrCat(path.string(), ": ", doing, ": ", mdb_strerror(code)));
}

}  // namespace

std::string LmdbKey(int64_t index, std::string_view name) {
  constexpr int64_t kMaxIndex = 99999999;  // eight digits: keys must sort as numbers
  if (index < 0 || index > kMaxIndex) {
    throw Error(ErrorKind::kBadData,
                StrCat("record ", index, " is outside the 0..", kMaxIndex, " of an eight-digit key"));
  }
  std::string key = std::to_string(index);
  key.insert(0, 8 - key.size(), '0');
  key += '_';
  const size_t room = static_cast<size_t>(kMaxKeyBytes) - key.size();
  if (name.size() > room) name.remove_prefix(name.size() - room);
  return key.append(name);
}

LmdbReader::LmdbReader(const fs::path& path, Access access, int64_t memory_bytes) : path_(path) {
  const fs::path data = DataFileOf(path);
  // O_NONBLOCK: a FIFO must be refused below, not waited for.
  const Descriptor file{open(data.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    const ErrorKind kind = errno == EACCES || errno == EPERM ? ErrorKind::kNotAllowed : ErrorKind::kNoInput;
    throw Error(kind, {}, StrCat("cannot open LMDB ", data.string(), ": ", Reason()),
                kind == ErrorKind::kNoInput ? "`moka data import` makes one" : "");
  }
  struct stat status {};
  if (fstat(file.fd, &status) != 0) throw Error(ErrorKind::kIo, StrCat(data.string(), ": ", Reason()));
  if (!S_ISREG(status.st_mode)) throw Error(ErrorKind::kNoInput, StrCat(data.string(), " is not a regular file"));
  file_bytes_ = status.st_size;
  entries_ = WalkLmdb(file.fd, file_bytes_, path.string());
  ReadMark();
  if (entries_.empty()) return;
  void* map = mmap(nullptr, static_cast<size_t>(file_bytes_), PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) throw Error(ErrorKind::kIo, StrCat("cannot map ", data.string(), ": ", Reason()));
  map_ = static_cast<const char*>(map);
  // Read-ahead fetches pages a shuffled reader will not use soon; it only hurts when they do not all fit.
  reads_ahead_ = access == Access::kShuffled && file_bytes_ > (memory_bytes > 0 ? memory_bytes : AvailableMemory());
  if (reads_ahead_) madvise(map, static_cast<size_t>(file_bytes_), MADV_RANDOM);
}

void LmdbReader::WillNeed(int64_t i) const {
  const LmdbEntry& entry = entries_[static_cast<size_t>(i)];
  const int64_t begin = entry.value_offset / PageBytes() * PageBytes();
  // A hint: what it does not bring is read when it is used.
  madvise(const_cast<char*>(map_) + begin, static_cast<size_t>(entry.value_offset - begin + entry.value_bytes),
          MADV_WILLNEED);
}

void TouchPages(std::string_view bytes) {
  const volatile char* data = bytes.data();  // reads that no compiler leaves out
  const auto step = static_cast<size_t>(PageBytes());
  for (size_t i = 0; i < bytes.size(); i += step) static_cast<void>(data[i]);
}

LmdbReader::~LmdbReader() {
  if (map_ != nullptr) munmap(const_cast<char*>(map_), static_cast<size_t>(file_bytes_));
}

// Databases made by `moka data import` carry a mark with their record count; a mismatch is a half-copied folder.
void LmdbReader::ReadMark() {
  const fs::path mark = path_ / kMarkName;
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored) || !fs::exists(mark, ignored)) return;
  constexpr int64_t kMarkLimit = int64_t{1} << 20U;
  const json read = json::parse(ReadFile(mark, kMarkLimit), nullptr, /*allow_exceptions=*/false);
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
  return {map_ + entry.key_offset, entry.key_bytes};
}

std::string_view LmdbReader::value(int64_t i) const {
  const LmdbEntry& entry = entries_[static_cast<size_t>(i)];
  return {map_ + entry.value_offset, entry.value_bytes};
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

struct LmdbWriter::Environment {
  MDB_env* env = nullptr;
  MDB_dbi dbi = 0;
  size_t map_bytes = size_t{32} << 20U;
  ~Environment() {
    if (env != nullptr) mdb_env_close(env);
  }

  void Open(const fs::path& folder) {
    Check(mdb_env_create(&env), folder, "create environment");
    Check(mdb_env_set_mapsize(env, map_bytes), folder, "set map size");
    constexpr mdb_mode_t kMode = 0644;
    // The folder is ours alone until Finish(): no lock file; one sync at the end.
    Check(mdb_env_open(env, folder.c_str(), MDB_NOLOCK | MDB_NOSYNC, kMode), folder, "open");
    MDB_txn* txn = nullptr;
    Check(mdb_txn_begin(env, nullptr, 0, &txn), folder, "begin");
    const int code = mdb_dbi_open(txn, nullptr, 0, &dbi);
    if (code != MDB_SUCCESS) mdb_txn_abort(txn);
    Check(code, folder, "open database");
    Check(mdb_txn_commit(txn), folder, "commit");
  }

  // Puts the whole batch in one transaction; MDB_MAP_FULL leaves the database as it was.
  int Write(const std::vector<std::pair<std::string, std::string>>& batch) const {
    MDB_txn* txn = nullptr;
    int code = mdb_txn_begin(env, nullptr, 0, &txn);
    if (code != MDB_SUCCESS) return code;
    for (const auto& [key, value] : batch) {
      MDB_val k{key.size(), const_cast<char*>(key.data())};
      MDB_val v{value.size(), const_cast<char*>(value.data())};
      code = mdb_put(txn, dbi, &k, &v, MDB_APPEND);
      if (code != MDB_SUCCESS) {
        mdb_txn_abort(txn);
        return code;
      }
    }
    return mdb_txn_commit(txn);
  }
};

LmdbWriter::LmdbWriter(fs::path path) : path_(std::move(path)), environment_(std::make_unique<Environment>()) {
  std::error_code ignored;
  if (!path_.has_filename()) path_ = path_.parent_path();
  if (fs::exists(fs::symlink_status(path_, ignored))) {
    throw Error(ErrorKind::kCantCreate, {}, StrCat(path_.string(), " exists already"),
                "remove it or choose another name");
  }
  partial_ = path_;
  partial_ += ".partial";
  fs::remove_all(partial_, ignored);  // left by a killed import
  CreateFolders(partial_);
  environment_->Open(partial_);
}

LmdbWriter::~LmdbWriter() {
  environment_.reset();
  if (partial_.empty()) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

void LmdbWriter::Put(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    throw Error(ErrorKind::kBadData,
                StrCat(path_.string(), ": key of ", key.size(), " bytes, expected 1..", kMaxKeyBytes));
  }
  if (value.size() > INT32_MAX) {
    throw Error(ErrorKind::kBadData, StrCat(path_.string(), ": record ", Printable(key), " has ",
                                            BytesText(static_cast<int64_t>(value.size())), ", the limit is 2 GiB"));
  }
  if (!checksums_.empty() && key <= last_key_) {
    throw Error(ErrorKind::kBadData,
                StrCat(path_.string(), ": key ", Printable(key), " does not follow ", Printable(last_key_)));
  }
  last_key_.assign(key);
  batch_.emplace_back(key, value);
  batch_bytes_ += static_cast<int64_t>(key.size() + value.size());
  value_bytes_ += static_cast<int64_t>(value.size());
  checksums_.push_back(Crc32c(value));
  if (static_cast<int64_t>(batch_.size()) >= kBatchRecords || batch_bytes_ >= kBatchBytes) Flush();
}

void LmdbWriter::Flush() {
  int code = environment_->Write(batch_);
  while (code == MDB_MAP_FULL) {
    environment_->map_bytes *= 2;
    Check(mdb_env_set_mapsize(environment_->env, environment_->map_bytes), path_, "grow the map");
    code = environment_->Write(batch_);
  }
  Check(code, path_, StrCat("write ", batch_.size(), " records"));
  batch_.clear();
  batch_bytes_ = 0;
}

void LmdbWriter::PutFile(const std::string& name, std::string_view bytes) {
  WriteFileAtomically(partial_ / name, bytes);
}

void LmdbWriter::Finish() {
  Require(!partial_.empty(), "LmdbWriter::Finish is called once");
  Flush();
  Check(mdb_env_sync(environment_->env, 1), path_, "sync");
  environment_.reset();
  const std::string_view sums(reinterpret_cast<const char*>(checksums_.data()), checksums_.size() * 4);
  WriteFileAtomically(partial_ / kChecksumName, sums);
  const json mark = {{"format", "moka-lmdb"},          {"version", 1},
                     {"entries", entries()},           {"value_bytes", value_bytes_},
                     {"records_crc32c", Crc32c(sums)}, {"complete", true}};
  WriteFileAtomically(partial_ / kMarkName, mark.dump(1) + "\n");
  std::error_code failed;
  fs::rename(partial_, path_, failed);
  if (failed) throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", path_.string(), ": ", failed.message()));
  partial_.clear();
  SyncFolder(path_.parent_path().empty() ? fs::path(".") : path_.parent_path());
}

}  // namespace moka
