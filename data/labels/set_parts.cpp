// One table of the names that people give to the parts of a set, which tells them from classes, too.
#include "data/labels/set_parts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "data/files/file_tree.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {{{"train", "train"},
                                                                                  {"training", "train"},
                                                                                  {"val", "val"},
                                                                                  {"valid", "val"},
                                                                                  {"validation", "val"},
                                                                                  {"dev", "val"},
                                                                                  {"eval", "val"},
                                                                                  {"test", "test"},
                                                                                  {"testing", "test"}}};

}  // namespace

std::string_view PartNamed(std::string_view folder) {
  const std::string name = AsciiLower(folder);
  const auto found = std::ranges::find(kNames, name, [](const auto& row) { return row.first; });
  return found == kNames.end() ? std::string_view() : found->second;
}

std::vector<PartSource> PartFolders(const fs::path& folder, bool (*is_part)(const fs::path&)) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return {};
  const std::vector<fs::path> entries = SortedEntries(folder);
  std::vector<PartSource> parts;
  for (const std::string_view part : {"train", "val", "test"}) {
    for (const fs::path& entry : entries) {
      const bool is_called_so = PartNamed(entry.filename().string()) == part;
      if (!is_called_so || !fs::is_directory(entry, ignored) || !is_part(entry)) continue;
      if (!parts.empty() && parts.back().part == part) {
        throw Error(
            ErrorKind::kBadData, {},
            StrCat(Printable(parts.back().source), " and ", Printable(entry.string()), " are both the part ", part),
            "rename or remove one of them");
      }
      parts.push_back({std::string(part), entry.string()});
    }
  }
  if (parts.empty() || parts.front().part != "train") return {};
  return parts;
}

}  // namespace moka
