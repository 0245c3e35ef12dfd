// Label maps: the classes' names and numbers, as SSD's programs have them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// Labels of class names, from a LabelMap in text. Of two items with one name the later counts, and two names may have
// one label, each with a warning unless it is checked. Errors: kNoInput; kBadData for a file without items, with kNames
// for a name that is given twice, and with kUnique for a label, too.
enum class LabelMapCheck { kNone, kNames, kUnique };
std::map<std::string, int32_t> ReadLabelMap(const std::filesystem::path& path, LabelMapCheck check);

// Whether a class of the name stands for no object: "background", "none", ...
bool IsBackgroundName(std::string_view name);
// Says of each class whose label is 0 that its boxes are the background's to a detector, unless it is called so; `file`
// holds the labels.
std::vector<std::string> BackgroundWarnings(const std::map<std::string, int32_t>& labels,
                                            const std::filesystem::path& file);

// Classes in the order of their labels: those without a name are called by their number. Empty where labels are below
// 0 or above 65535.
std::vector<std::string> NamesByLabel(const std::map<std::string, int32_t>& labels);

}  // namespace moka
