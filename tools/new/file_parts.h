// The parts of sources that are no pictures, by what their files are called: "train.csv", "qa1_test.txt", "val.de.gz".
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/new/new_task.h"

namespace moka {

// "train", "val" or "test" by the first or the last word of a file's name before its first point, as PartNamed has
// them; empty where neither is the name of a part, or each of another.
std::string_view PartOfFile(std::string_view name);

struct PartFiles {
  std::string part;
  std::vector<std::filesystem::path> files;  // in order
};

// The files of a folder that speak of a part: train, val and test in that order; empty where none does. Those that do
// not are told in `remarks`. Errors: kNoInput; kBadData where none is of the training.
std::vector<PartFiles> PartFilesIn(const std::filesystem::path& folder, std::vector<std::string>& remarks);

// Gives each item (a row, a pair of lines, a story) the part of its file or, where that is the training's alone or
// there is one file for all, the one that its hash falls on.
class Parting {
 public:
  // `own`: the parts that the source's files have; empty: none. Errors: kUsage where shares are given of what has
  // parts.
  Parting(const NewSource& source, const std::vector<PartFiles>& own);

  const std::vector<std::string>& names() const { return names_; }
  // The parts of names(), still without items, of a source that has so many. Those whose items are there for their
  // hashes have NewPart::chosen.
  std::vector<NewPart> Parts(const std::string& source, size_t items) const;
  // The place in names() of an item of a file of part `own`; -1: of none.
  int PartOf(std::string_view own, uint64_t content);
  // Counts what is in the training and elsewhere, whose results are too good. `items`: as a person calls them.
  std::vector<std::string> CopiesIn(const std::string& items) const;

 private:
  std::vector<SplitPart> shares_;
  std::vector<std::string> names_;
  bool is_hashed_ = true;
  std::set<uint64_t> trained_;
  std::map<std::string, std::vector<uint64_t>> others_;  // of parts with files of their own
};

// Errors: kBadData for a training of fewer than `fewest` items and for another part without any.
void CheckPartSizes(const NewData& data, int64_t fewest, const std::string& hint);

}  // namespace moka
