// Pictures below a folder, for whoever takes a folder of them: importers, inference and measures of sets. What is left
// out is said by its kind, so that no set is silently smaller than its folder.
#pragma once

#include <filesystem>
#include <set>
#include <vector>

#include "data/files/left_out.h"

namespace moka {

inline constexpr const char* kHiddenFolders = "hidden folders, which are not looked into";

// Adds the hidden folders that lie in a folder.
void NameHidden(const std::filesystem::path& folder, LeftOut& left_out);

// Walks a set of pictures and the folders in it, as torchvision's ImageFolder does. A link to a folder is entered
// unless it leads back into the set; a folder that is met again is not entered twice. What has a picture's name is a
// picture whatever it is: its reader refuses a FIFO or a link that leads nowhere by what it is.
class PictureWalk {
 public:
  // `root`: of the set. What is left out goes to `left_out`, which must outlive this.
  PictureWalk(const std::filesystem::path& root, LeftOut& left_out);
  // Returns the folder's pictures in order. Errors: kNoInput and kNotAllowed for a folder that cannot be read.
  std::vector<std::filesystem::path> PicturesIn(const std::filesystem::path& folder);

 private:
  void Walk(const std::filesystem::path& folder, std::vector<std::filesystem::path>& pictures);
  // Whether a folder is a link into the set, or to one that holds it: what is there is read by its own name.
  bool LeadsBack(const std::filesystem::path& folder) const;

  LeftOut& left_out_;
  std::filesystem::path root_;
  std::set<std::filesystem::path> entered_;
};

}  // namespace moka
