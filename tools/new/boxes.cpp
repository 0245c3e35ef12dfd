// Boxes are counted by the pictures of a part: parts that were split share what was seen of their source.
#include "tools/new/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/size.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kFewestBoxes = 5;      // of a class
constexpr int64_t kFewestPictures = 10;  // of the training

std::string ClassRows(const NewData& data, const std::vector<std::string>& classes) {
  std::string rows;
  for (size_t label = 1; label < classes.size(); ++label) {
    rows += StrCat("| ", Printable(classes[label]), " |");
    for (const NewPart& part : data.parts) rows += StrCat(" ", BoxesByClass(part)[static_cast<int64_t>(label)], " |");
    rows += "\n";
  }
  return rows;
}

}  // namespace

std::vector<std::string> BoxClasses(const NewData& data) {
  const auto& names = data.train().facts->schema().box_class();
  std::vector<std::string> classes(names.begin(), names.end());
  for (const NewPart& part : data.parts) {
    const auto& others = part.facts->schema().box_class();
    if (std::ranges::equal(others, names)) continue;
    throw Error(ErrorKind::kBadData, {},
                StrCat("the parts train and ", part.name, " number their classes differently: ",
                       Printable(Join(classes, ", ")), " and ", Printable(Join({others.begin(), others.end()}, ", "))),
                "name the same classes in the same order in both");
  }
  return classes;
}

std::map<int64_t, int64_t> BoxesByClass(const NewPart& part) {
  const std::set<int64_t> pictures(part.pictures.begin(), part.pictures.end());
  std::map<int64_t, int64_t> counts;
  for (const BoxFacts& box : part.facts->sizes_of_boxes()) {
    if (pictures.contains(box.picture)) ++counts[box.label];
  }
  return counts;
}

void RefuseFewBoxes(const NewData& data, const std::vector<std::string>& classes) {
  std::map<int64_t, int64_t> boxes = BoxesByClass(data.train());
  const bool is_split = !data.train().chosen.empty();
  std::map<int64_t, int64_t> all = data.train().facts->boxes();
  std::vector<std::string> few;
  for (size_t i = 1; i < classes.size(); ++i) {
    const auto label = static_cast<int64_t>(i);
    if (boxes[label] >= kFewestBoxes) continue;
    few.push_back(StrCat("\"", Printable(classes[i]), "\" has ", boxes[label],
                         is_split ? StrCat(" of ", all[label], " in all") : ""));
  }
  if (classes.size() < 2) few.emplace_back("there is no class at all");
  if (!few.empty()) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat("classes with too few boxes to train on: ", Join(few, ", "), "; each needs ", kFewestBoxes, " or more"),
        "add pictures, or take the class out of the annotations");
  }
  if (data.train().size() < kFewestPictures) {
    throw Error(ErrorKind::kBadData, {},
                StrCat("only ", data.train().size(), " pictures to train on, expected ", kFewestPictures, " or more"),
                "add pictures");
  }
}

int64_t MostBoxes(const NewData& data) {
  std::map<std::pair<const PictureFacts*, int64_t>, int64_t> counts;
  std::set<const PictureFacts*> met;  // parts that were split share theirs, and a test may have its own
  int64_t most = 8;
  for (const NewPart& part : data.parts) {
    if (!met.insert(part.facts.get()).second) continue;
    for (const BoxFacts& box : part.facts->sizes_of_boxes()) ++counts[{part.facts.get(), box.picture}];
  }
  for (const auto& [picture, count] : counts) most = std::max(most, count);
  return RoundUp(most, 8).value();
}

void AddBoxClasses(const NewData& data, const std::vector<std::string>& classes, Values& values) {
  const std::vector<std::string> things(classes.begin() + 1, classes.end());
  values["things"] = Printable(Join(things, ", "));
  values["classes"] = StrCat(things.size());
  values["all_classes"] = StrCat(classes.size());
  values["class_rows"] = ClassRows(data, classes);
  values["max_boxes"] = StrCat(MostBoxes(data));
}

std::string BoxesText(const NewData& data, const std::vector<std::string>& classes) {
  return fmt::format("{} classes, boxes: {}", classes.size() - 1,
                     CountsText({classes.begin() + 1, classes.end()}, Shifted(data.train().facts->boxes())));
}

}  // namespace moka
