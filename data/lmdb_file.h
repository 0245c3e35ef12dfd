// LMDB databases of records: a reader over a checked, mapped file (lmdb_writer.h writes them). It finds every record by
// its own bounded walk (lmdb_walk.h) and never calls liblmdb, so it needs no locks and no reader table; the database
// must not change while it is open, which holds for training sets (written once).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/lmdb_walk.h"

namespace moka {

// Read-only access by index in key order. Costs 24 bytes a record; keys and values are views of the map and live as
// long as the reader. Safe for any number of threads.
class LmdbReader {
 public:
  enum class Access { kSequential, kShuffled };

  // `path` is a database folder (holding data.mdb) or the file itself.
  // A shuffled file that is larger than `memory_bytes` (0: what the system has to spare now) is read without the
  // system's read-ahead, and reads_ahead() asks for WillNeed.
  // Errors: kNoInput, kNotAllowed, kBadData naming the damage, all before anything is mapped.
  explicit LmdbReader(const std::filesystem::path& path, Access access = Access::kSequential, int64_t memory_bytes = 0);
  LmdbReader(const LmdbReader&) = delete;
  LmdbReader& operator=(const LmdbReader&) = delete;
  ~LmdbReader();

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  const std::filesystem::path& path() const { return path_; }
  int64_t file_bytes() const { return file_bytes_; }
  // Requires: 0 <= i < size().
  std::string_view key(int64_t i) const;
  std::string_view value(int64_t i) const;
  bool reads_ahead() const { return reads_ahead_; }
  // For messages: `record "00000012_cat.jpg" (index 12) of PATH`.
  std::string NameOf(int64_t i) const;
  // The most that `count` finds of a value; values that it cannot read (Error) count nothing: they are reported, or
  // skipped, when their turn comes.
  int64_t MostOf(const std::function<int64_t(std::string_view value)>& count) const;
  // Tells the system to fetch a record's pages; does not wait for them.
  void WillNeed(int64_t i) const;
  // Index of a key, or -1.
  int64_t Find(std::string_view key) const;
  // CRC-32C of each record as the importer wrote them; empty when the database has none (Caffe's own).
  const std::vector<uint32_t>& checksums() const { return checksums_; }

 private:
  void ReadMark();

  std::filesystem::path path_;
  int64_t file_bytes_ = 0;
  const char* map_ = nullptr;
  bool reads_ahead_ = false;
  std::vector<LmdbEntry> entries_;
  std::vector<uint32_t> checksums_;
};

// Reads a byte of each page, so that what a mapped value costs to fetch is known apart from its use.
void TouchPages(std::string_view bytes);

}  // namespace moka
