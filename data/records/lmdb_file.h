// LMDB databases of records: a reader over a checked, mapped file (lmdb_writer.h writes them). It finds every record by
// its own bounded walk (lmdb_walk.h) and never calls liblmdb, so it needs no locks and no reader table. A database that
// changes while it is open is an error of its reader, found by checksums where it has them (docs/data.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "data/records/lmdb_walk.h"

namespace moka {

// Read-only access by index in key order. Costs 24 bytes a record; keys and values are views of the map and live as
// long as the reader. Safe for any number of threads.
class LmdbReader {
 public:
  enum class Access { kSequential, kShuffled };
  // When a record is held to the checksum that its importer wrote.
  enum class Checks { kEveryRead, kFirstRead, kNoRead };
  struct Use {
    Use(Access how) : access(how) {}
    Use(Access how, Checks when) : access(how), checks(when) {}
    Access access;
    Checks checks = Checks::kEveryRead;
  };

  // `path` is a database folder (holding data.mdb) or the file itself.
  // A shuffled file that is larger than `memory_bytes` (0: what the system has to spare now) is read without the
  // system's read-ahead, and reads_ahead() asks for WillNeed.
  // Errors: kNoInput, kNotAllowed, kBadData naming the damage, all before anything is mapped.
  explicit LmdbReader(const std::filesystem::path& path, Use use = Access::kSequential, int64_t memory_bytes = 0);
  LmdbReader(const LmdbReader&) = delete;
  LmdbReader& operator=(const LmdbReader&) = delete;
  ~LmdbReader() = default;

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  const std::filesystem::path& path() const { return path_; }
  int64_t file_bytes() const { return file_bytes_; }
  // Requires: 0 <= i < size().
  std::string_view key(int64_t i) const;
  // A record's bytes, fetched and held to its checksum. Errors: kBadData if they are not those that were imported; kIo
  // if the file was cut under its reader.
  std::string_view value(int64_t i) const;
  // The same without a look at them: of pages that are not in memory none is fetched.
  std::string_view unchecked_value(int64_t i) const;
  int64_t value_bytes(int64_t i) const { return entries_[static_cast<size_t>(i)].value_bytes; }
  // To be called after records were used: whether the file is still the one that was opened. Databases without
  // checksums may not have been written since either. Errors: kIo.
  void CheckFile() const;
  bool reads_ahead() const { return reads_ahead_; }
  // For messages: `record "00000012_cat.jpg" (index 12) of PATH`.
  std::string NameOf(int64_t i) const;
  // The most that `count` finds of an unchecked value; values that it cannot read (Error) count nothing: they are
  // reported, or skipped, when their turn comes.
  int64_t MostOf(const std::function<int64_t(std::string_view value)>& count) const;
  // Tells the system to fetch a record's pages; does not wait for them.
  void WillNeed(int64_t i) const;
  // Index of a key, or -1.
  int64_t Find(std::string_view key) const;
  // CRC-32C of each record as the importer wrote them; empty when the database has none (Caffe's own).
  const std::vector<uint32_t>& checksums() const { return checksums_; }

 private:
  void ReadMark();
  void CheckValue(int64_t i, std::string_view bytes) const;

  std::filesystem::path path_;
  int64_t file_bytes_ = 0;
  MappedFile map_;
  bool reads_ahead_ = false;
  Checks checks_;
  std::vector<LmdbEntry> entries_;
  std::vector<uint32_t> checksums_;
  std::unique_ptr<std::atomic<bool>[]> seen_;  // kFirstRead: records that were found good
};

// Reads a byte of each page, so that what a mapped value costs to fetch is known apart from its use.
void TouchPages(std::string_view bytes);

}  // namespace moka
