// Classes of pictures, of boxes and of pixels: how many there are of each, and whether several sources mean the same by
// a number.
#include <algorithm>

#include "core/text.h"
#include "data/check/source_findings.h"
#include "data/check/source_summary.h"
#include "data/labels/mask_folders.h"

namespace moka {
namespace {

using Counts = std::map<int64_t, int64_t>;

// Named classes from the number `first` on that have none of what is counted.
void FindMissing(const SourceLook& look, const char* what, const Counts& counts, const std::vector<std::string>& names,
                 int64_t first, std::vector<Finding>& findings) {
  Finding finding{.kind = "empty_classes", .title = {}, .help = "a net cannot learn them"};
  for (int64_t label = first; label < std::ssize(names); ++label) {
    if (!counts.contains(label)) finding.examples.push_back({names[static_cast<size_t>(label)]});
  }
  if (finding.examples.empty()) return;
  finding.title =
      StrCat(look.source(), ": ",
             Counted(std::ssize(finding.examples), StrCat("class has no ", what), StrCat("classes have no ", what)));
  findings.push_back(std::move(finding));
}

// How often classes are there that one source counts, as `what`: "pictures".
class Balance {
 public:
  Balance(const SourceLook& look, const char* what, const Counts& counts, const std::vector<std::string>& names,
          int64_t first, std::vector<Finding>& findings)
      : look_(look), what_(what), counts_(counts), names_(names), first_(first), findings_(findings) {}

  void Find() {
    if (counts_.empty()) return;
    FindMissing(look_, what_, counts_, names_, first_, findings_);
    Uneven();
    if (counts_.size() > 1 || names_.size() > static_cast<size_t>(first_) + 1) return;
    if (first_ > 0) return;  // one kind of object is enough to look for
    findings_.push_back({.kind = "one_class",
                         .title = StrCat(look_.source(), ": all ", what_, " are of one class, ",
                                         ClassName(names_, counts_.begin()->first)),
                         .help = "a net has nothing to tell apart",
                         .examples = {}});
  }

 private:
  void Uneven() {
    constexpr int64_t kMostTimes = 10;
    const auto by_count = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [least, most] = std::minmax_element(counts_.begin(), counts_.end(), by_count);
    if (most->second < kMostTimes * least->second) return;
    Finding finding{.kind = "uneven_classes",
                    .title = StrCat(look_.source(), ": class ", ClassName(names_, most->first), " has ", most->second,
                                    " ", what_, ", ") +
                             StrCat(ClassName(names_, least->first), " has ", least->second),
                    .help = "sampling { balance: CLASSES } of a data layer draws each class equally often"};
    for (const auto& [label, count] : counts_) {
      if (most->second >= kMostTimes * count)
        finding.examples.push_back({StrCat(ClassName(names_, label), ": ", count)});
    }
    if (first_ > 0) finding.help = "a net will hardly learn the rare ones: more pictures of them help most";
    findings_.push_back(std::move(finding));
  }

  const SourceLook& look_;
  const char* what_;
  const Counts& counts_;
  const std::vector<std::string>& names_;
  int64_t first_;
  std::vector<Finding>& findings_;
};

// Numbers of classes that mean another class in the first source.
void CompareNumbers(const SourceLook& first, const SourceLook& other, const std::vector<std::string>& names,
                    const std::vector<std::string>& other_names, std::vector<Finding>& findings) {
  Finding finding{.kind = "numbers_differ",
                  .severity = Severity::kError,
                  .title = StrCat("classes have other numbers in ", other.source(), " than in ", first.source()),
                  .help = "number them alike: --classes FILE, here and in moka data import, names them in one order"};
  for (size_t i = 0; i < std::min(names.size(), other_names.size()); ++i) {
    if (names[i] == other_names[i]) continue;
    finding.examples.push_back({StrCat("class ", i, " is ", names[i], ", and ", other_names[i], " there")});
  }
  if (finding.examples.empty()) return;
  findings.push_back(std::move(finding));
}

using NamedCount = std::pair<std::string, int64_t>;

// Classes that the first source has no examples of, by their names.
void CompareCounts(const SourceLook& first, const SourceLook& other, const std::vector<NamedCount>& counts,
                   const std::vector<NamedCount>& other_counts, std::vector<Finding>& findings) {
  Finding finding{.kind = "unlearnt_classes", .title = {}, .help = "no net can know them from the first source"};
  for (const auto& [name, count] : other_counts) {
    const bool is_known = std::ranges::find(counts, name, &NamedCount::first) != counts.end();
    if (!is_known) finding.examples.push_back({StrCat(name, ": ", count)});
  }
  if (finding.examples.empty()) return;
  finding.title = StrCat(other.source(), ": ", Counted(std::ssize(finding.examples), "class has", "classes have"),
                         " no examples in ", first.source());
  findings.push_back(std::move(finding));
}

}  // namespace

void FindInClasses(const SourceLooks& looks, bool are_given, std::vector<Finding>& findings) {
  for (const auto& look : looks) {
    const std::vector<std::string> names = LabelNames(*look);
    Balance(*look, "pictures", look->labels(), names, 0, findings).Find();
    const std::vector<std::string> box_names = BoxNames(*look);
    Balance(*look, "boxes", look->boxes(), box_names, 1, findings).Find();
    if (look->mask_pixels().empty()) continue;
    const std::vector<std::string> mask_names = MaskNames(*look);
    FindMissing(*look, "pixels", look->mask_pixels(), mask_names, 0, findings);
    if (!mask_names.empty()) continue;
    const std::string fault = SmoothedMaskFault(look->mask_pixels());
    if (fault.empty()) continue;
    findings.push_back({.kind = "smoothed_masks",
                        .severity = Severity::kError,
                        .title = StrCat(look->source(), ": ", fault),
                        .help = kSmoothedMaskHelp,
                        .examples = {}});
  }
  for (size_t i = 1; i < looks.size(); ++i) {
    const SourceLook& first = *looks.front();
    const SourceLook& other = *looks[i];
    if (first.rows().empty() || other.rows().empty()) continue;
    const bool have_boxes = !first.boxes().empty() && !other.boxes().empty();
    const std::vector<std::string> names = have_boxes ? BoxNames(first) : LabelNames(first);
    const std::vector<std::string> other_names = have_boxes ? BoxNames(other) : LabelNames(other);
    if (!are_given && !names.empty() && !other_names.empty()) {
      CompareNumbers(first, other, names, other_names, findings);
    }
    // A source without names is taken to have those of the other.
    CompareCounts(
        first, other, NamedCounts(have_boxes ? first.boxes() : first.labels(), names.empty() ? other_names : names),
        NamedCounts(have_boxes ? other.boxes() : other.labels(), other_names.empty() ? names : other_names), findings);
  }
}

}  // namespace moka
