// Records are appended in batches, a transaction each, and the folder gets its name when all is there. A resumed writer
// compares what it finds with its own identity before it goes on.
#include "data/records/lmdb_writer.h"

#include <lmdb.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/checksum.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/open_file.h"
#include "core/system_reason.h"
#include "core/text.h"
#include "data/records/lmdb_file.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kIdentityName = "import.json";
constexpr const char* kNotesName = "import_notes.txt";
constexpr int64_t kMaxKeyBytes = 511;
constexpr int64_t kBatchBytes = int64_t{32} << 20U;
constexpr uint64_t kFirstMapBytes = uint64_t{32} << 20U;
constexpr int64_t kIdentityLimit = int64_t{1} << 20U;

void CheckLmdb(int code, const fs::path& path, std::string_view doing) {
  if (code == MDB_SUCCESS) return;
  throw Error(ErrorKind::kIo, StrCat(path.string(), ": ", doing, ": ", mdb_strerror(code)));
}

fs::path ParentOf(const fs::path& path) { return path.parent_path().empty() ? fs::path(".") : path.parent_path(); }

void RenameFolder(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed) throw Error(ErrorKind::kCantCreate, StrCat("cannot create ", to.string(), ": ", failed.message()));
  SyncFolder(ParentOf(to));
}

// One opening of a database for writing.
class Environment {
 public:
  // map_bytes 0: as large as the file says.
  Environment(const fs::path& folder, uint64_t map_bytes, bool is_synced) : folder_(folder) {
    CheckLmdb(mdb_env_create(&env_), folder, "create environment");
    if (map_bytes > 0) CheckLmdb(mdb_env_set_mapsize(env_, map_bytes), folder, "set map size");
    constexpr mdb_mode_t kMode = 0644;
    // The folder is ours alone until Finish(): no lock file of LMDB's.
    const int code = mdb_env_open(env_, folder.c_str(), MDB_NOLOCK | (is_synced ? 0U : MDB_NOSYNC), kMode);
    if (code != MDB_SUCCESS) mdb_env_close(env_);
    CheckLmdb(code, folder, "open");
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { mdb_env_close(env_); }

  uint64_t map_bytes() const {
    MDB_envinfo info{};
    mdb_env_info(env_, &info);
    return info.me_mapsize;
  }
  void Sync() const { CheckLmdb(mdb_env_sync(env_, 1), folder_, "sync"); }

  // Puts the whole batch in one transaction; an error leaves the database as it was.
  int Write(const std::vector<std::pair<std::string, std::string>>& batch) const {
    MDB_txn* txn = nullptr;
    MDB_dbi dbi = 0;
    int code = mdb_txn_begin(env_, nullptr, 0, &txn);
    if (code != MDB_SUCCESS) return code;
    code = mdb_dbi_open(txn, nullptr, 0, &dbi);
    for (size_t i = 0; code == MDB_SUCCESS && i < batch.size(); ++i) {
      const auto& [key, value] = batch[i];
      MDB_val k{key.size(), const_cast<char*>(key.data())};
      MDB_val v{value.size(), const_cast<char*>(value.data())};
      code = mdb_put(txn, dbi, &k, &v, MDB_APPEND);
    }
    if (code == MDB_SUCCESS) return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
  }

  // Gives back the room of pages that no commit owns: those of a batch that was cut.
  void Trim() const {
    MDB_envinfo info{};
    MDB_stat stat{};
    mdb_env_info(env_, &info);
    mdb_env_stat(env_, &stat);
    const fs::path data = folder_ / "data.mdb";
    const uint64_t owned = (info.me_last_pgno + 1) * stat.ms_psize;
    std::error_code failed;
    if (fs::file_size(data, failed) > owned && !failed) fs::resize_file(data, owned, failed);
  }

 private:
  const fs::path& folder_;
  MDB_env* env_ = nullptr;
};

// "its source is "a", this one's "b"" for every field that differs.
std::string Differences(const Json& left, const Json& ours) {
  std::vector<std::string> texts;
  const Json a = left.flatten();
  const Json b = ours.flatten();
  const auto shown = [](const Json& object, const std::string& key) {
    return object.contains(key) ? object[key].dump(-1, ' ', false, Json::error_handler_t::replace) : "none";
  };
  for (const Json& object : {a, b}) {
    for (const auto& [key, value] : object.items()) {
      const std::string before = shown(a, key);
      const std::string now = shown(b, key);
      std::string name = key.substr(1);
      std::replace(name.begin(), name.end(), '/', ' ');
      std::string text = StrCat("its ", name, " is ", before, ", this one's ", now);
      if (before != now && std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
    }
  }
  return Join(texts, "; ");
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

std::string_view NameInKey(std::string_view key) {
  constexpr size_t kDigits = 8;
  const bool is_numbered = key.size() > kDigits && key[kDigits] == '_' &&
                           std::all_of(key.begin(), key.begin() + kDigits, [](char c) { return c >= '0' && c <= '9'; });
  return is_numbered ? key.substr(kDigits + 1) : key;
}

LmdbWriter::LmdbWriter(fs::path path, Options options) : path_(std::move(path)), options_(std::move(options)) {
  std::error_code ignored;
  if (!path_.has_filename()) path_ = path_.parent_path();
  if (fs::exists(fs::symlink_status(path_, ignored))) {
    throw Error(ErrorKind::kCantCreate, {}, StrCat(path_.string(), " exists already"),
                "remove it or choose another name");
  }
  if (options_.batch_records <= 0) options_.batch_records = kBatchRecords;
  partial_ = path_;
  partial_ += ".partial";
  const bool is_left = !options_.identity.empty() && !options_.restart && fs::exists(partial_ / kIdentityName, ignored);
  bool is_begun = false;
  try {
    if (is_left) {
      Resume();
    } else {
      Begin();
      is_begun = true;
    }
    CheckRoom();
  } catch (...) {
    if (lock_ >= 0) close(lock_);
    if (is_begun) fs::remove_all(partial_, ignored);
    throw;
  }
}

LmdbWriter::~LmdbWriter() {
  if (lock_ >= 0) close(lock_);
  if (partial_.empty()) return;
  if (!options_.identity.empty() && committed_ > 0) {
    LogInfo(StrCat(partial_.string(), " keeps ", committed_, " records: the same command goes on from there"));
    return;
  }
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

// A new PATH.partial: it takes its name when it is a database that opens and says what it is.
void LmdbWriter::Begin() {
  std::error_code ignored;
  if (fs::exists(partial_ / kIdentityName, ignored)) Lock();  // not while another process writes it
  fs::remove_all(partial_, ignored);
  fs::path making = partial_;
  making += ".new";
  fs::remove_all(making, ignored);
  CreateFolders(making);
  map_bytes_ = kFirstMapBytes;
  Environment(making, map_bytes_, /*is_synced=*/true).Sync();
  if (!options_.identity.empty()) WriteFileAtomically(making / kIdentityName, options_.identity);
  SyncFolder(making);
  RenameFolder(making, partial_);
  if (!options_.identity.empty()) Lock();
}

// The process that writes a partial database holds its identity's lock.
void LmdbWriter::Lock() {
  if (lock_ >= 0) close(std::exchange(lock_, -1));
  lock_ = OpenFile::ForReading(partial_ / kIdentityName).Release();
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int code = errno;
  throw Error(ErrorKind::kUnavailable, {},
              code == EWOULDBLOCK ? StrCat("another process is writing ", partial_.string())
                                  : StrCat("cannot lock ", partial_.string(), ": ", SystemReason(code)),
              "wait for it, or choose another name");
}

void LmdbWriter::CheckIdentity() const {
  const std::string left = ReadFile(partial_ / kIdentityName, kIdentityLimit);
  if (left == options_.identity) return;
  const Json read = Json::parse(left, nullptr, /*allow_exceptions=*/false);
  const Json ours = Json::parse(options_.identity);
  throw Error(ErrorKind::kCantCreate, {},
              StrCat(partial_.string(), " holds the records of another import that was not finished",
                     read.is_object() ? ": " + Differences(read, ours) : ""),
              "give --restart (or remove it) to begin anew");
}

// Goes on after the last batch that an earlier writer committed.
void LmdbWriter::Resume() {
  CheckOwnFolder(partial_);
  Lock();
  CheckIdentity();
  {
    const Environment environment(partial_, 0, /*is_synced=*/true);
    map_bytes_ = environment.map_bytes();
    environment.Trim();
  }
  const LmdbReader reader(partial_);
  for (int64_t i = 0; i < reader.size(); ++i) {
    const std::string_view value = reader.value(i);
    checksums_.push_back(Crc32c(value));
    value_bytes_ += static_cast<int64_t>(value.size());
    if (options_.on_kept) options_.on_kept(reader.key(i), value);
  }
  if (reader.size() > 0) last_key_.assign(reader.key(reader.size() - 1));
  committed_ = reader.size();
  ReadNotes();
}

// Lines "RECORD KIND TEXT". Those before a record that was not committed are dropped, as is a line that was cut.
void LmdbWriter::ReadNotes() {
  const fs::path path = partial_ / kNotesName;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const std::string bytes = ReadFile(path);
  size_t good = 0;
  for (size_t end = bytes.find('\n'); end != std::string::npos; end = bytes.find('\n', good)) {
    const std::string_view line = std::string_view(bytes).substr(good, end - good);
    Note note;
    const auto number = std::from_chars(line.data(), line.data() + line.size(), note.record);
    const size_t word = static_cast<size_t>(number.ptr - line.data()) + 1;
    const size_t text = word < line.size() ? line.find(' ', word) : std::string_view::npos;
    if (number.ec != std::errc() || text == std::string_view::npos || note.record >= committed_) break;
    note.kind = line.substr(word, text - word);
    note.text = line.substr(text + 1);
    kept_notes_.push_back(std::move(note));
    good = end + 1;
  }
  if (good < bytes.size()) WriteFileAtomically(path, std::string_view(bytes).substr(0, good));
}

void LmdbWriter::WriteNotes() {
  if (new_notes_.empty()) return;
  std::string lines;
  for (const Note& note : new_notes_) lines += StrCat(note.record, " ", note.kind, " ", note.text, "\n");
  const fs::path path = partial_ / kNotesName;
  std::error_code ignored;
  const bool is_new = !fs::exists(path, ignored);
  const OpenFile file = OpenFile::ForAppending(path);
  const ssize_t written = write(file.fd(), lines.data(), lines.size());
  int code = written < 0 ? errno : written < std::ssize(lines) ? ENOSPC : 0;
  if (code == 0 && fdatasync(file.fd()) != 0) code = errno;
  if (code != 0) ThrowFull(code);
  if (is_new) SyncFolder(partial_);
  new_notes_.clear();
}

void LmdbWriter::AddNote(std::string kind, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  new_notes_.push_back({entries(), std::move(kind), std::move(text)});
}

// LMDB puts a record that is over half a page on pages of its own: up to a page more for each of them.
void LmdbWriter::CheckRoom() const {
  if (options_.expected_bytes == 0) return;
  std::error_code failed;
  const fs::space_info space = fs::space(partial_, failed);
  if (failed) return;
  const auto free = static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
  const int64_t needed = options_.expected_bytes - value_bytes_;
  if (needed <= free) return;
  throw Error(
      ErrorKind::kIo, {},
      StrCat(path_.string(), ": the records need about ", BytesText(needed), ", ", BytesText(free), " are free there"),
      "make room, or choose another disk");
}

void LmdbWriter::ThrowFull(int code) const {
  std::error_code failed;
  const fs::space_info space = fs::space(partial_, failed);
  const auto free = failed ? 0 : static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
  throw Error(ErrorKind::kIo, {},
              StrCat(path_.string(), ": cannot write records ", committed_, " to ", entries() - 1, ": ",
                     // LMDB's word for a write that was cut short, as the one that fills a disk is.
                     code == EIO ? "not all was written (input/output error, or no room)" : mdb_strerror(code), " (",
                     BytesText(free), " are free there)"),
              options_.identity.empty() || committed_ == 0 ? "make room and try again"
                                                           : "make room and run the same command again");
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
  if (static_cast<int64_t>(batch_.size()) >= options_.batch_records || batch_bytes_ >= kBatchBytes) Flush();
}

// A fresh environment for each batch: LMDB keeps used pages of earlier transactions and writes what is left in them
// into the gaps of new ones, which would make the file's bytes depend on where a writer was cut.
void LmdbWriter::Flush() {
  if (batch_.empty()) return;
  WriteNotes();
  const bool is_synced = !options_.identity.empty();
  int code = MDB_MAP_FULL;
  while (code == MDB_MAP_FULL) {
    const Environment environment(partial_, map_bytes_, is_synced);
    code = environment.Write(batch_);
    if (code == MDB_MAP_FULL) map_bytes_ *= 2;
    if (code != MDB_SUCCESS && code != MDB_MAP_FULL) environment.Trim();
  }
  if (code != MDB_SUCCESS) ThrowFull(code);
  batch_.clear();
  batch_bytes_ = 0;
  committed_ = entries();
}

void LmdbWriter::PutFile(const std::string& name, std::string_view bytes) {
  WriteFileAtomically(partial_ / name, bytes);
}

void LmdbWriter::Finish() {
  Require(!partial_.empty(), "LmdbWriter::Finish is called once");
  Flush();
  WriteNotes();
  Environment(partial_, map_bytes_, /*is_synced=*/true).Sync();
  const std::string_view sums(reinterpret_cast<const char*>(checksums_.data()), checksums_.size() * 4);
  WriteFileAtomically(partial_ / "records.crc32c", sums);
  const Json mark = {{"format", "moka-lmdb"},          {"version", 1},
                     {"entries", entries()},           {"value_bytes", value_bytes_},
                     {"records_crc32c", Crc32c(sums)}, {"complete", true}};
  WriteFileAtomically(partial_ / "moka.json", mark.dump(1) + "\n");
  RenameFolder(partial_, path_);
  partial_.clear();
}

}  // namespace moka
