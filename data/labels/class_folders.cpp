// Collects folders first and numbers them when all are known; hints tell a set's parts (train, val) from classes.
#include "data/labels/class_folders.h"

#include <algorithm>
#include <tuple>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/labels/set_parts.h"
#include "data/records/class_names.h"

namespace moka {
namespace {

template <class Folders>
bool ArePartsOfASet(const Folders& folders) {
  return std::ranges::all_of(folders, [](const std::string& folder) { return !PartNamed(folder).empty(); });
}

std::string_view LastFolderOf(std::string_view folder) { return folder.substr(folder.rfind('/') + 1); }

}  // namespace

ClassFolders::ClassFolders(const std::filesystem::path& classes) : classes_(classes.string()) {
  if (classes.empty()) return;
  labels_ = ReadClassList(classes);
  for (const std::string& name : labels_) numbers_.emplace(name, static_cast<int32_t>(numbers_.size()));
}

void ClassFolders::Add(std::string_view name) {
  const std::string_view folder = name.substr(0, name.find('/'));
  const std::string_view holder = name.substr(0, name.rfind('/'));
  if (!folders_.contains(folder)) folders_.emplace(folder);
  if (!pictured_.contains(holder)) pictured_.emplace(holder);
  has_pictures_ = has_pictures_ || holder == folder;
}

void ClassFolders::Number(const std::string& place) {
  for (const std::string& folder : folders_) {
    try {
      CheckClassName(folder);
    } catch (const Error& e) {
      throw Error(e.kind(), {}, StrCat(place, ": ", e.text()), StrCat("rename the folder; ", e.hint()));
    }
    if (classes_.empty()) {
      numbers_.emplace(folder, static_cast<int32_t>(labels_.size()));
      labels_.push_back(folder);
    } else if (!numbers_.contains(folder)) {
      const std::string near = DidYouMean(folder, labels_);
      throw Error(ErrorKind::kBadData, {},
                  StrCat(place, ": the folder \"", Printable(folder), "\" is none of the ", labels_.size(),
                         " classes of ", Printable(classes_)),
                  near.empty() ? "expected folders that are called as the classes are" : near);
    }
  }
}

bool ClassFolders::AreNone() const {
  if (!classes_.empty() || folders_.empty()) return false;
  return ArePartsOfASet(folders_) || (!has_pictures_ && folders_.size() == 1);
}

std::string ClassFolders::HolderOfClasses() const {
  std::map<std::string, std::vector<std::string>> held;
  for (const std::string& folder : pictured_) {
    const size_t slash = folder.rfind('/');
    if (slash != std::string::npos) held[folder.substr(0, slash)].push_back(folder.substr(slash + 1));
  }
  // The one that is least deep; of several that of the training.
  const auto order = [](const std::string& holder) {
    const std::string last = AsciiLower(LastFolderOf(holder));
    return std::tuple(std::ranges::count(holder, '/'), !last.starts_with("train"), holder);
  };
  std::string best;
  for (const auto& [holder, folders] : held) {
    if (ArePartsOfASet(folders)) continue;
    if (best.empty() || order(holder) < order(best)) best = holder;
  }
  return best;
}

uint32_t ClassFolders::Checksum(uint32_t before) const {
  return classes_.empty() ? before : Crc32c(Join(labels_, "\n"), before);
}

std::vector<std::string> ClassFolders::Warnings() const {
  if (labels_.size() != 1) return {};
  return {StrCat("there is one class, \"", Printable(labels_.front()), "\": a classifier learns nothing from it")};
}

}  // namespace moka
