// A name speaks of its part at its beginning or its end: "test_2016_flickr.de.gz",
// "qa1_single-supporting-fact_train.txt".
#include "tools/new/file_parts.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/files/left_out.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> OwnParts(const std::vector<PartFiles>& own) {
  std::vector<std::string> names;
  for (const PartFiles& part : own) names.push_back(part.part);
  return names;
}

}  // namespace

std::string_view PartOfFile(std::string_view name) {
  const std::string_view stem = name.substr(0, name.find('.'));
  constexpr std::string_view kBetween = "_- ";
  const std::string_view first = PartNamed(stem.substr(0, stem.find_first_of(kBetween)));
  const size_t last_at = stem.find_last_of(kBetween);
  const std::string_view last = PartNamed(last_at == std::string_view::npos ? stem : stem.substr(last_at + 1));
  if (first.empty() || last.empty() || first == last) return first.empty() ? last : first;
  return {};
}

std::vector<PartFiles> PartFilesIn(const fs::path& folder, std::vector<std::string>& remarks) {
  std::vector<PartFiles> parts = {{"train", {}}, {"val", {}}, {"test", {}}};
  LeftOut others;
  std::error_code ignored;
  for (const fs::path& file : SortedEntries(folder)) {
    const std::string name = file.filename().string();
    const std::string_view part = PartOfFile(name);
    if (part.empty() || fs::is_directory(file, ignored)) {
      if (!IsSystemFile(name)) others.Add("files whose names speak of no part", name);
      continue;
    }
    std::ranges::find(parts, part, &PartFiles::part)->files.push_back(file);
  }
  const bool has_train = !parts[0].files.empty();
  std::erase_if(parts, [](const PartFiles& part) { return part.files.empty(); });
  if (parts.empty()) return {};
  if (!has_train) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(Printable(folder.string()), ": ", Printable(parts[0].files[0].filename().string()),
                       " is of the part ", parts[0].part, ", and no file is of the part train"),
                "expected names that begin or end with train, val and test");
  }
  for (std::string& sentence : others.Sentences()) remarks.push_back(std::move(sentence));
  return parts;
}

Parting::Parting(const NewSource& source, const std::vector<PartFiles>& own) : shares_(source.shares) {
  const std::vector<std::string> names = OwnParts(own);
  CheckShares(source.word, names, source.has_shares, source.shares.size());
  is_hashed_ = names.size() < 2 || names[1] != "val";
  if (!is_hashed_) {
    names_ = names;
    return;
  }
  for (const SplitPart& share : shares_) names_.push_back(share.name);
  if (names.size() == 2) names_.push_back(names[1]);
}

std::vector<NewPart> Parting::Parts(const std::string& source, size_t items) const {
  std::vector<NewPart> parts;
  for (const std::string& name : names_) {
    const bool is_chosen = is_hashed_ && parts.size() < shares_.size();
    parts.push_back({name, source, nullptr, {}, std::vector<bool>(is_chosen ? items : 0)});
  }
  return parts;
}

int Parting::PartOf(std::string_view own, uint64_t content) {
  if (own.empty() || (is_hashed_ && own == "train")) {
    const int part = PartOfContent(content, shares_);
    if (part == 0 && !own.empty()) trained_.insert(content);
    return part;
  }
  if (own == "train") {
    trained_.insert(content);
  } else {
    others_[std::string(own)].push_back(content);
  }
  return static_cast<int>(std::ranges::find(names_, own) - names_.begin());
}

std::vector<std::string> Parting::CopiesIn(const std::string& items) const {
  std::vector<std::string> remarks;
  for (const auto& [part, contents] : others_) {
    const auto copies = std::ranges::count_if(contents, [&](uint64_t content) { return trained_.contains(content); });
    if (copies == 0) continue;
    remarks.push_back(StrCat(copies, " of ", contents.size(), " ", items, " of ", part,
                             " are in train too, so its results are too good"));
  }
  return remarks;
}

void CheckPartSizes(const NewData& data, int64_t fewest, const std::string& hint) {
  for (const NewPart& part : data.parts) {
    const int64_t least = &part == &data.train() ? fewest : 1;
    if (part.size() >= least) continue;
    throw Error(ErrorKind::kBadData, {},
                StrCat("the part ", part.name, " has ", part.size(), " ", data.items, ", expected ", least, " or more"),
                hint);
  }
}

}  // namespace moka
