// Folders are found by the names that programs and people give them.
#include "data/labels/mask_folders.h"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "core/text.h"
#include "data/files/file_tree.h"
#include "data/labels/set_parts.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

// The first of these folders that is there; empty: none.
fs::path FolderOf(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (IsFolder(folder / name)) return folder / name;
  }
  return {};
}

bool IsAnyPart(const fs::path& /*folder*/) { return true; }

fs::path MasksIn(const fs::path& folder) {
  return FolderOf(folder,
                  {"masks", "mask", "labels", "label", "annotations", "annots", "SegmentationClass", kNumbersFolder});
}
fs::path PicturesIn(const fs::path& folder) {
  return FolderOf(folder, {"images", "image", "pictures", "img", "imgs", "JPEGImages"});
}
bool HoldsMasks(const fs::path& folder) { return !MasksIn(folder).empty() && !PicturesIn(folder).empty(); }

// train and trainannot, val and valannot: CamVid's.
std::vector<MaskFolders> PartsWithSuffix(const fs::path& folder) {
  std::vector<MaskFolders> parts;
  for (const PartSource& part : PartFolders(folder, IsAnyPart)) {
    const std::string name = fs::path(part.source).filename().string();
    const fs::path masks =
        FolderOf(folder, {(name + "annot").c_str(), (name + "_masks").c_str(), (name + "_labels").c_str()});
    if (!masks.empty()) parts.push_back({part.part, part.source, masks});
  }
  return parts;
}

}  // namespace

std::vector<MaskFolders> MaskFoldersOf(const fs::path& folder) {
  std::vector<MaskFolders> parts;
  for (const PartSource& part : PartFolders(folder, HoldsMasks))
    parts.push_back({part.part, PicturesIn(part.source), MasksIn(part.source)});
  if (!parts.empty()) return parts;
  parts = PartsWithSuffix(folder);
  if (!parts.empty() && parts.front().part == "train") return parts;
  if (!HoldsMasks(folder)) return {};
  parts.clear();
  const fs::path pictures = PicturesIn(folder);
  for (const PartSource& part : PartFolders(pictures, IsAnyPart)) {
    const fs::path masks = MasksIn(folder) / fs::path(part.source).filename();
    if (IsFolder(masks)) parts.push_back({part.part, part.source, masks});
  }
  if (!parts.empty() && parts.front().part == "train") return parts;
  return {{"train", pictures, MasksIn(folder)}};
}

bool HaveEqualNames(const MaskFolders& folders) {
  std::set<std::string> masks;
  for (const fs::path& file : SortedEntries(folders.masks)) masks.insert(file.stem().string());
  const std::vector<fs::path> pictures = SortedEntries(folders.pictures);
  const auto paired =
      std::ranges::count_if(pictures, [&](const fs::path& file) { return masks.contains(file.stem().string()); });
  return 2 * paired > std::ssize(pictures);
}

std::string SmoothedMaskFault(const std::map<int64_t, int64_t>& pixels) {
  constexpr size_t kLeastBetween = 8;
  constexpr double kMostBetween = 0.4;   // of all pixels
  constexpr double kLeastOfHalf = 0.15;  // of those between, on each side of the middle
  if (pixels.size() < kLeastBetween + 2) return {};
  const int64_t low = pixels.begin()->first;
  const int64_t high = pixels.rbegin()->first;
  double all = 0;
  int64_t most_between = 0;
  double below = 0;
  double above = 0;
  for (const auto& [value, count] : pixels) {
    all += static_cast<double>(count);
    if (value == low || value == high) continue;
    most_between = std::max(most_between, count);
    (2 * value < low + high ? below : above) += static_cast<double>(count);
  }
  const double between = below + above;
  const bool are_ends = std::min(pixels.begin()->second, pixels.rbegin()->second) > most_between;
  if (!are_ends || between > kMostBetween * all || std::min(below, above) < kLeastOfHalf * between) return {};
  return StrCat("the masks' borders are smoothed: ", pixels.size() - 2, " values lie between ", low, " and ", high,
                ", which most of the pixels have");
}

}  // namespace moka
