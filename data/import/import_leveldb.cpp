// Importer of LevelDBs of Caffe's records, which convert_imageset made before LMDB was its default.
//
// Opening a LevelDB writes: it locks the folder, replays the log, begins a new manifest, and may merge tables. What is
// opened is therefore a folder of links to the tables, which never change once they are written, beside copies of the
// few files that do; so the source stays as it is, and may be read-only.
#include <fcntl.h>
#include <leveldb/db.h>
#include <leveldb/iterator.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/import/import.h"
#include "data/import/record_writer.h"
#include "data/import/source_kind.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

bool IsTable(const fs::path& file) { return file.extension() == ".ldb" || file.extension() == ".sst"; }

// The database by its files: a table's name and size, the bytes of CURRENT. Logs and manifests by name and size.
struct LevelDbFiles {
  std::vector<fs::path> tables;
  std::vector<fs::path> others;
  uint32_t crc32c = 0;
  int64_t bytes = 0;
};

LevelDbFiles FilesOf(const fs::path& folder) {
  LevelDbFiles files;
  for (const fs::path& file : SortedEntries(folder)) {
    const std::string name = file.filename().string();
    const bool is_table = IsTable(file);
    if (!is_table && name != "CURRENT" && !name.starts_with("MANIFEST-") && file.extension() != ".log") continue;
    const auto bytes = static_cast<int64_t>(fs::file_size(file));
    files.crc32c = Crc32c(StrCat(name, "\t", bytes, "\n"), files.crc32c);
    files.bytes += bytes;
    (is_table ? files.tables : files.others).push_back(file);
  }
  std::error_code ignored;
  if (!fs::is_regular_file(folder / "CURRENT", ignored)) {
    throw Error(ErrorKind::kNoInput, StrCat(folder.string(), " is no LevelDB: it has no file CURRENT"));
  }
  files.crc32c = Crc32c(ReadFile(folder / "CURRENT"), files.crc32c);
  return files;
}

// Whether a process has the database open. LevelDB locks its file LOCK as a whole.
bool IsLocked(const fs::path& folder) {
  const int fd = open((folder / "LOCK").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO is not waited for
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool is_locked = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return is_locked;
}

// The folder of links, which goes away with it.
class LinkedFolder {
 public:
  LinkedFolder(const LevelDbFiles& files, fs::path path) : path_(std::move(path)) {
    if (IsLocked(path_)) {
      throw Error(ErrorKind::kUnavailable, StrCat("another process imports a LevelDB through ", path_.string()));
    }
    Remove();  // what an import that was killed left
    CreateFolders(path_);
    std::error_code failed;
    for (const fs::path& table : files.tables) {
      fs::create_symlink(fs::absolute(table), path_ / table.filename(), failed);
      if (failed) Fail(table, failed);
    }
    for (const fs::path& file : files.others) {
      fs::copy_file(file, path_ / file.filename(), failed);
      if (failed) Fail(file, failed);
    }
  }
  LinkedFolder(const LinkedFolder&) = delete;
  LinkedFolder& operator=(const LinkedFolder&) = delete;
  ~LinkedFolder() { Remove(); }
  const fs::path& path() const { return path_; }

 private:
  [[noreturn]] void Fail(const fs::path& file, const std::error_code& code) {
    Remove();
    throw Error(ErrorKind::kCantCreate,
                StrCat("cannot link or copy ", file.string(), " to ", path_.string(), ": ", code.message()));
  }
  void Remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  fs::path path_;
};

// Whether a log ends inside of a record, which LevelDB leaves out without a word. A log is blocks of 32 KiB of
// fragments: checksum (4 bytes), length (2, little-endian), type (1 whole, 2 first, 3 middle, 4 last), content; less
// than such a head at a block's end is filling.
bool EndsInsideRecord(const fs::path& log) {
  constexpr int64_t kBlockBytes = 32768;
  constexpr int64_t kHeadBytes = 7;
  const OpenFile file = OpenFile::ForReading(log);
  bool is_open = false;
  for (int64_t at = 0; at < file.bytes();) {
    const int64_t left = kBlockBytes - at % kBlockBytes;
    if (left < kHeadBytes) {
      at += left;
      continue;
    }
    std::array<char, kHeadBytes> head{};
    if (file.ReadAt(at, head.data(), kHeadBytes, log) < kHeadBytes) return true;
    const auto byte = [&](size_t i) { return int64_t{static_cast<unsigned char>(head.at(i))}; };
    const int64_t length = byte(4) + 256 * byte(5);
    const int64_t type = byte(6);
    if (type == 0 && length == 0) {  // room that was never written
      at += left;
      continue;
    }
    if (file.bytes() - at < kHeadBytes + length) return true;
    is_open = type == 2 || type == 3;
    at += kHeadBytes + length;
  }
  return is_open;
}

// Only the last log may be cut: by a process that was killed, or by a copy that was not whole.
void WarnOfCutLog(const LevelDbFiles& files, const fs::path& folder) {
  const auto is_log = [](const fs::path& file) { return file.extension() == ".log"; };
  const auto last = std::find_if(files.others.rbegin(), files.others.rend(), is_log);
  if (last == files.others.rend()) return;
  try {
    if (!EndsInsideRecord(*last)) return;
  } catch (const Error&) {
    return;  // LevelDB says why it cannot be read
  }
  LogWarning(StrCat(folder.string(), ": ", last->filename().string(),
                    " ends inside of a record: what was written last is not there (a copy may not be whole)"));
}

void CheckStatus(const leveldb::Status& status, const fs::path& folder) {
  if (status.ok()) return;
  throw Error(status.IsIOError() ? ErrorKind::kIo : ErrorKind::kBadData,
              StrCat(folder.string(), ": ", Printable(status.ToString())));
}

std::unique_ptr<leveldb::DB> OpenLevelDb(const fs::path& folder, const fs::path& links) {
  leveldb::Options options;
  options.create_if_missing = false;
  options.paranoid_checks = true;
  leveldb::DB* opened = nullptr;
  CheckStatus(leveldb::DB::Open(options, links.string(), &opened), folder);
  return std::unique_ptr<leveldb::DB>(opened);
}

void CheckOptions(const ImportOptions& options) {
  const bool changes = options.storage != ImportOptions::Storage::kSource || options.height > 0 ||
                       HasSides(options) || options.channels != ImageChannels::kAsStored;
  if (!changes && !options.shuffle_seed) return;
  throw Error(
      ErrorKind::kUsage, {}, "records of a LevelDB are copied as they are and in their order",
      options.shuffle_seed ? "mix the records afterwards: moka data shuffle" : "leave out --resize, --storage, --gray");
}

}  // namespace

ImportReport ImportLevelDb(const fs::path& folder, const fs::path& out, const ImportOptions& options) {
  CheckOptions(options);
  const LevelDbFiles files = FilesOf(folder);
  if (IsLocked(folder)) {
    throw Error(ErrorKind::kUnavailable, StrCat("another process has the LevelDB ", folder.string(), " open"));
  }
  WarnOfCutLog(files, folder);
  fs::path links = out.has_filename() ? out : out.parent_path();
  links += ".links";
  const LinkedFolder linked(files, links);
  const std::unique_ptr<leveldb::DB> db = OpenLevelDb(folder, linked.path());
  leveldb::ReadOptions reading;
  reading.verify_checksums = true;
  reading.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> records(db->NewIterator(reading));
  records->SeekToFirst();
  CheckStatus(records->status(), folder);
  if (!records->Valid()) throw Error(ErrorKind::kBadData, StrCat(folder.string(), ": no records"));
  const RecordKind kind = KindOf({records->value().data(), records->value().size()});
  RecordWriter writer(out, options,
                      {.text = StrCat("leveldb ", folder.string()), .crc32c = files.crc32c, .kind = kind});
  for (; records->Valid() && !writer.full(); records->Next()) {
    if (writer.SkipKept()) continue;
    ImportItem item{.name = std::string(NameInKey({records->key().data(), records->key().size()}))};
    item.kind = kind;
    item.held_bytes = static_cast<int64_t>(records->value().size());
    item.record = [wire = records->value().ToString()] { return wire; };
    writer.Add(std::move(item));
  }
  CheckStatus(records->status(), folder);
  return writer.Finish({});
}

SourceKind LeveldbSource() {
  return {.kind = "leveldb",
          .parts = "FOLDER",
          .makes = "Caffe's records of a LevelDB, as they are",
          .least = 1,
          .most = 1,
          .import = [](const SourceParts& parts, const std::filesystem::path& out, const ImportOptions& options) {
            return ImportLevelDb(parts[0], out, options);
          }};
}

}  // namespace moka
