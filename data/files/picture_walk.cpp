// Walks a folder by hand and not by the standard library's recursive iterator, which cannot tell a link that leads back
// from one that leads nowhere.
#include "data/files/picture_walk.h"

#include "data/files/file_tree.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// A link that leads nowhere, or round in a circle.
bool LeadsNowhere(const fs::path& entry) {
  std::error_code ignored;
  return fs::is_symlink(entry, ignored) && !fs::exists(entry, ignored);
}

}  // namespace

void NameHidden(const fs::path& folder, LeftOut& left_out) {
  for (const fs::path& hidden : HiddenFoldersIn(folder)) left_out.Add(kHiddenFolders, hidden.string());
}

PictureWalk::PictureWalk(const fs::path& root, LeftOut& left_out) : left_out_(left_out) {
  std::error_code ignored;
  root_ = fs::canonical(root, ignored);
}

std::vector<fs::path> PictureWalk::PicturesIn(const fs::path& folder) {
  std::vector<fs::path> pictures;
  Walk(folder, pictures);
  return pictures;
}

void PictureWalk::Walk(const fs::path& folder, std::vector<fs::path>& pictures) {
  std::error_code ignored;
  if (!entered_.insert(fs::canonical(folder, ignored)).second) {
    left_out_.Add("folders that were read already by another name", folder.string());
    return;
  }
  NameHidden(folder, left_out_);
  for (const fs::path& entry : SortedEntries(folder)) {
    const std::string name = entry.filename().string();
    if (fs::is_directory(entry, ignored)) {
      LeadsBack(entry) ? left_out_.Add("links to folders of the set itself", entry.string()) : Walk(entry, pictures);
    } else if (IsImageName(name)) {
      pictures.push_back(entry);
    } else if (LeadsNowhere(entry)) {
      left_out_.Add("links that lead nowhere", entry.string());
    } else if (!IsSystemFile(name)) {
      left_out_.Add(KindOfNoPicture(name), entry.string());
    }
  }
}

bool PictureWalk::LeadsBack(const fs::path& folder) const {
  std::error_code ignored;
  if (!fs::is_symlink(folder, ignored)) return false;
  const std::string target = fs::canonical(folder, ignored).string() + "/";
  const std::string root = root_.string() + "/";
  return target.starts_with(root) || root.starts_with(target);
}

}  // namespace moka
