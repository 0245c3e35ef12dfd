// Writing LMDB databases of records in append mode. Records collect in "PATH.partial", which becomes PATH in Finish().
//
//   nothing -> PATH.partial (a database that opens, of whole batches) -> PATH (records, checksums, the mark moka.json)
//
// Invariants of a writer with an identity, which can be resumed:
// 1. PATH.partial opens at any time: it is made under another name, synced and renamed.
// 2. It holds the first whole batches. Where a batch ends depends on the records alone, and each is written by a fresh
//    environment, so that data.mdb has the same bytes however often its writing was cut.
// 3. A batch is on disk before the next is begun: LMDB's default order, pages, fdatasync, then the meta page through a
//    descriptor opened with O_DSYNC. MDB_NOSYNC could leave a meta page that points at pages a power cut took;
//    MDB_NOMETASYNC could lose the last batch. Neither is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moka {

// "00000042_name". The name's tail is kept when the key would pass LMDB's 511 bytes.
std::string LmdbKey(int64_t index, std::string_view name);
// The part of such a key that is not its number; all of another key.
std::string_view NameInKey(std::string_view key);

// One thread. The map grows by itself.
class LmdbWriter {
 public:
  struct Options {
    // The identity of the source and its options, a JSON object; kept as import.json. If given, the records written
    // stay when the writer ends without Finish(), and a writer with the same identity goes on from there. Empty:
    // nothing stays.
    std::string identity;
    bool restart = false;        // what an earlier writer left is removed
    int64_t batch_records = 0;   // of one commit; 0: kBatchRecords
    int64_t expected_bytes = 0;  // of all keys and values, for a look at the free space first; 0: not known
    // Is given each record that an earlier writer left, in order.
    std::function<void(std::string_view key, std::string_view value)> on_kept = {};
  };
  static constexpr int64_t kBatchRecords = 4096;

  // Errors: kCantCreate when PATH exists, the folder cannot be made, or PATH.partial has another identity (the
  // differences are said); kUnavailable when another process writes it; kIo when there is too little room.
  LmdbWriter(std::filesystem::path path, Options options);
  explicit LmdbWriter(std::filesystem::path path) : LmdbWriter(std::move(path), Options()) {}
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;
  ~LmdbWriter();

  // Errors: kBadData when the key does not follow the last one or a size is out of range; kIo when the disk is full.
  void Put(std::string_view key, std::string_view value);
  // A file to stand beside the records (labels.txt). Requires: called before Finish().
  void PutFile(const std::string& name, std::string_view bytes);
  // A remark on the source between the last record and the next; `kind` is a word, `text` a line. Remarks are kept in
  // import_notes.txt, as durably as the record that follows them.
  struct Note {
    int64_t record = 0;  // the index of the record that follows
    std::string kind;
    std::string text;
  };
  void AddNote(std::string kind, std::string text);
  void Finish();

  // Returns the number of records, those kept from an earlier writer among them.
  int64_t entries() const { return static_cast<int64_t>(checksums_.size()); }
  // The number of records that are on disk for good.
  int64_t committed() const { return committed_; }
  // Remarks that an earlier writer left before the records kept.
  const std::vector<Note>& kept_notes() const { return kept_notes_; }

 private:
  void Begin();
  void Resume();
  void ReadNotes();
  void WriteNotes();
  void Flush();
  void CheckRoom() const;
  void CheckIdentity() const;
  void Lock();
  [[noreturn]] void ThrowFull(int code) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  Options options_;
  int lock_ = -1;
  uint64_t map_bytes_ = 0;
  std::vector<std::pair<std::string, std::string>> batch_;
  int64_t batch_bytes_ = 0;
  std::string last_key_;
  int64_t value_bytes_ = 0;
  int64_t committed_ = 0;
  std::vector<uint32_t> checksums_;
  std::vector<Note> kept_notes_;
  std::vector<Note> new_notes_;
};

}  // namespace moka
