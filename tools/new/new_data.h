// The data of a new model: the parts of a source (train, val and perhaps test), found as folders or made by a hash of
// each picture's bytes, and what was seen in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/import/copy_records.h"
#include "data/import/import_options.h"
#include "data/labels/set_parts.h"
#include "tools/new/picture_facts.h"

namespace moka {

struct NewPart {
  std::string name;
  std::string source;
  std::shared_ptr<const PictureFacts> facts;  // of the whole source; parts of one source share them
  std::vector<int64_t> pictures;              // good ones of this part, by their places in the source
  std::vector<bool> chosen;                   // ImportOptions::chosen; empty: the whole source

  int64_t size() const { return std::ssize(pictures); }
  const PictureRow& row(int64_t picture) const { return facts->rows()[static_cast<size_t>(picture)]; }
  // Pictures by their class.
  std::map<int64_t, int64_t> Labels() const;
};

struct NewData {
  std::vector<NewPart> parts;               // train, val and, where the source has one, test
  std::filesystem::path classes;            // the file or database that numbers the classes of all parts; empty: none
  std::string source = {};                  // as it was typed: those of parts may name files that were made
  bool has_made_names = false;              // the sources' names of classes stand in a file that was made for them
  std::string items = "pictures";           // as a person calls them
  std::string hashed = "its file's bytes";  // what the part of each follows from
  std::vector<std::string> remarks = {};    // for whoever reads the result

  const NewPart& train() const { return parts.at(0); }
  const NewPart& val() const { return parts.at(1); }
};

struct LookOptions {
  std::string source = {};                // NewData::source
  std::filesystem::path made_names = {};  // where a file of names is made, if one is: NewData::has_made_names
  std::vector<SplitPart> shares;          // of a source that is in one part
  bool skips_bad = false;                 // pictures that cannot be read are left out, not refused
  // Called once the first part was seen: may change the sources so that all number their classes alike, or returns
  // ImportOptions::classes for them.
  std::function<std::filesystem::path(const PictureFacts& first, std::vector<PartSource>& sources)> number_classes = {};
  std::function<void(int64_t done, int64_t total)> progress = {};
  std::function<bool()> wants_stop = {};
};

// The share that a picture's bytes belong to, by their hash: a function of the bytes and the shares alone, so that
// copies of a picture are in one part and pictures that are added move no others. -1: of none.
int PartOfContent(uint64_t content, const std::vector<SplitPart>& shares);

// Refuses shares of what the source has parted already: `own` are its parts, in order. Errors: kUsage.
void CheckShares(const std::string& source, const std::vector<std::string>& own, bool are_given, size_t shares);

// Looks at all parts, each picture once; a training part without a val beside it is split. Requires: the first is
// "train". Errors: kBadData naming bad pictures, and for a part without any; those of VisitSource.
NewData LookAtParts(std::vector<PartSource> sources, const LookOptions& options);

// Imports the parts to FOLDER/NAME each. `made`: what is stored; the rest is the parts' own.
void ImportParts(const NewData& data, const std::filesystem::path& folder, const ImportOptions& made);

}  // namespace moka
