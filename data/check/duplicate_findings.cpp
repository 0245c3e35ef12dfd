// Pictures of equal content are found by sorting, those that look alike by bands of their hashes (near_groups.h), where
// of equal ones the first stands for all.
#include <algorithm>
#include <set>
#include <utility>

#include "core/text.h"
#include "core/text_table.h"
#include "data/check/near_groups.h"
#include "data/check/source_findings.h"
#include "data/check/source_summary.h"

namespace moka {
namespace {

using Group = std::vector<PictureRef>;

// The pictures of all sources, by their content.
class Contents {
 public:
  explicit Contents(const SourceLooks& looks) : looks_(looks) {
    for (size_t s = 0; s < looks.size(); ++s) {
      for (int64_t i = 0; i < std::ssize(looks[s]->rows()); ++i) {
        const PictureRow& row = RowOf({s, i});
        if (row.channels > 0 || row.bytes > 0) order_.push_back({s, i});
      }
    }
    std::ranges::sort(order_, [&](const PictureRef& a, const PictureRef& b) {
      const auto& left = RowOf(a).content;
      const auto& right = RowOf(b).content;
      return left != right ? left < right : a < b;
    });
  }
  const PictureRow& RowOf(const PictureRef& picture) const {
    return looks_[picture.source]->rows()[static_cast<size_t>(picture.index)];
  }
  // Those of two and more, in the order of their first pictures, and the first of each content.
  void Part(std::vector<Group>& equal, Group& firsts) const {
    for (size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      while (end < order_.size() && RowOf(order_[end]).content == RowOf(order_[begin]).content) ++end;
      firsts.push_back(order_[begin]);
      if (end - begin > 1) {
        equal.emplace_back(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                           order_.begin() + static_cast<std::ptrdiff_t>(end));
      }
    }
    std::ranges::sort(firsts);
    std::ranges::sort(equal);
  }

 private:
  const SourceLooks& looks_;
  Group order_;
};

// One finding a kind, of groups.
class GroupFinding {
 public:
  GroupFinding(const SourceLooks& looks, const char* kind, const char* help)
      : looks_(looks), finding_{.kind = kind, .title = {}, .help = help} {}

  void Add(const Group& group, const char* between) {
    constexpr size_t kNamed = 4;
    std::vector<std::string> places;
    for (const PictureRef& picture : group) places.push_back(looks_[picture.source]->PlaceOf(picture.index));
    pictures_ += std::ssize(group);
    finding_.examples.push_back({SomeOf(std::move(places), kNamed, between), group});
  }
  // `one`, `many`: of the groups.
  void Tell(const char* one, const char* many, std::vector<Finding>& findings) {
    if (finding_.examples.empty()) return;
    finding_.title = StrCat(Counted(std::ssize(finding_.examples), one, many), " (", pictures_, " files)");
    findings.push_back(std::move(finding_));
  }

 private:
  const SourceLooks& looks_;
  Finding finding_;
  int64_t pictures_ = 0;
};

bool IsInSeveral(const Group& group) {
  return std::ranges::any_of(group, [&](const PictureRef& picture) { return picture.source != group[0].source; });
}

// `names`: of the classes of each source.
bool HasSeveralClasses(const std::vector<std::vector<std::string>>& names, const Contents& contents,
                       const Group& group) {
  std::set<std::string> classes;
  for (const PictureRef& picture : group) {
    const PictureRow& row = contents.RowOf(picture);
    if (row.has_label) classes.insert(ClassName(names[picture.source], row.label));
  }
  return classes.size() > 1;
}

void FindEqual(const SourceLooks& looks, const Contents& contents, const std::vector<Group>& equal,
               std::vector<Finding>& findings) {
  GroupFinding contradictions(looks, "contradictions", "which class is it? take out the others");
  GroupFinding leaks(looks, "leaks", "a net remembers them: take them out of all sources but one");
  GroupFinding duplicates(looks, "duplicates", "each counts as often as it is there: keep one");
  std::vector<std::vector<std::string>> names;
  for (const auto& look : looks) names.push_back(LabelNames(*look));
  for (const Group& group : equal) {
    const bool is_in_several = IsInSeveral(group);
    if (is_in_several) leaks.Add(group, " = ");
    const bool is_contradiction = HasSeveralClasses(names, contents, group);
    if (is_contradiction) contradictions.Add(group, " = ");
    if (!is_in_several && !is_contradiction) duplicates.Add(group, " = ");
  }
  contradictions.Tell("picture is in several classes", "pictures are in several classes", findings);
  leaks.Tell("picture is in several sources", "pictures are in several sources", findings);
  duplicates.Tell("picture is there more than once", "pictures are there more than once", findings);
}

// Searches among the first pictures of each content.
void FindNear(const SourceLooks& looks, const Contents& contents, const Group& firsts, const std::vector<Group>& equal,
              std::vector<Finding>& findings) {
  Group pictures;
  std::vector<PerceptualHash> hashes;
  for (const PictureRef& picture : firsts) {
    const PictureRow& row = contents.RowOf(picture);
    if (row.channels == 0 || row.look.is_flat) continue;
    pictures.push_back(picture);
    hashes.push_back(row.look);
  }
  const NearGroups near = FindNearGroups(hashes);
  GroupFinding leaks(looks, "near_leaks", "a net remembers them: take them out of all sources but one");
  GroupFinding duplicates(looks, "near_duplicates", "copies that were sized or encoded anew teach nothing: keep one");
  for (const std::vector<int64_t>& places : near.groups) {
    Group group;
    for (const int64_t place : places) {
      const PictureRef& first = pictures[static_cast<size_t>(place)];
      // Its equals stand for it in other sources.
      const auto same = std::ranges::lower_bound(equal, first, {}, [](const Group& g) { return g.front(); });
      const bool has_equals = same != equal.end() && same->front() == first;
      const Group alone = {first};
      const Group& members = has_equals ? *same : alone;
      group.insert(group.end(), members.begin(), members.end());
    }
    (IsInSeveral(group) ? leaks : duplicates).Add(group, " ~ ");
  }
  leaks.Tell("picture is nearly the same in several sources", "pictures are nearly the same in several sources",
             findings);
  duplicates.Tell("picture is there nearly the same again", "pictures are there nearly the same again", findings);
  if (near.cut == 0) return;
  findings.push_back({.kind = "search_cut",
                      .severity = Severity::kNote,
                      .title = Counted(near.cut, "picture looks like so many others that it was not compared with all",
                                       "pictures look like so many others that they were not compared with all"),
                      .help = "those that are nearly the same may be more than are named",
                      .examples = {}});
}

}  // namespace

void FindDuplicates(const SourceLooks& looks, std::vector<Finding>& findings) {
  const Contents contents(looks);
  std::vector<Group> equal;
  Group firsts;
  contents.Part(equal, firsts);
  FindEqual(looks, contents, equal, findings);
  FindNear(looks, contents, firsts, equal, findings);
}

}  // namespace moka
