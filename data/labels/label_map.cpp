// Reads the items and tells names and numbers that are given twice, by the checks that the caller's layer asks for.
#include "data/labels/label_map.h"

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/records/class_names.h"
#include "proto/moka.pb.h"
#include "proto/text/text_format.h"

namespace moka {

std::map<std::string, int32_t> ReadLabelMap(const std::filesystem::path& path, LabelMapCheck check) {
  LabelMap map;
  ParseText(ReadTextFile(path, "a label map"), path.string(), map);
  if (map.item_size() == 0) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": the label map has no items"));
  const auto tell = [&](LabelMapCheck least, const std::string& text, std::string_view what) {
    if (check >= least) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": ", text));
    LogWarning(StrCat(path.string(), ": ", text, "; ", what));
  };
  std::map<std::string, int32_t> labels;
  std::map<int32_t, std::string> names;
  for (const LabelMapItem& item : map.item()) {
    if (const std::string fault = ClassNameFault(item.name()); !fault.empty()) {
      tell(LabelMapCheck::kNames, StrCat("the name \"", Printable(item.name()), "\" ", fault),
           "a list of names does not keep it");
    }
    const bool is_new = labels.insert_or_assign(item.name(), item.label()).second;
    if (!is_new) {
      tell(LabelMapCheck::kNames, StrCat("the name \"", Printable(item.name()), "\" is given twice"),
           "the later item counts");
    }
    const auto [named, is_unused] = names.emplace(item.label(), item.name());
    if (!is_unused && named->second != item.name()) {
      tell(LabelMapCheck::kUnique,
           StrCat("the label ", item.label(), " is that of \"", Printable(named->second), "\" and of \"",
                  Printable(item.name()), "\""),
           "objects of both names have it");
    }
    named->second = item.name();
  }
  return labels;
}

bool IsBackgroundName(std::string_view name) {
  return name == "none" || name == "background" || name == "__background__" || name == "none_of_the_above";
}

std::vector<std::string> BackgroundWarnings(const std::map<std::string, int32_t>& labels,
                                            const std::filesystem::path& file) {
  std::vector<std::string> warnings;
  for (const auto& [name, label] : labels) {
    if (label != 0 || IsBackgroundName(name)) continue;
    warnings.push_back(StrCat(Printable(file.string()), ": class \"", Printable(name),
                              "\" has the label 0, which detectors take for the background: its boxes are refused in "
                              "training unless background_label_id is another"));
  }
  return warnings;
}

std::vector<std::string> NamesByLabel(const std::map<std::string, int32_t>& labels) {
  constexpr int32_t kMost = 1 << 16;
  std::vector<std::string> names;
  for (const auto& [name, label] : labels) {
    if (label < 0 || label >= kMost) return {};
    while (names.size() <= static_cast<size_t>(label)) names.push_back(std::to_string(names.size()));
    names[static_cast<size_t>(label)] = name;
  }
  return names;
}

}  // namespace moka
