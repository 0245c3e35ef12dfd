// A JSON parser with a callback keeps one object of the lists at a time: annotation files have gigabytes, and a tree of
// one would not fit memory.
#include "data/labels/coco_file.h"

#include <algorithm>
#include <cmath>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <streambuf>
#include <unordered_map>
#include <unordered_set>

#include "core/checksum.h"
#include "core/error.h"
#include "core/json_bounds.h"
#include "core/open_file.h"
#include "core/text.h"
#include "data/labels/crowd_flag.h"
#include "data/records/class_names.h"

namespace moka {
namespace {

using Json = nlohmann::json;

constexpr double kMostSide = 1 << 24;  // of a picture

[[noreturn]] void BadCocoFile(const std::string& text) { throw Error(ErrorKind::kBadData, text); }

std::string CocoTextOf(const Json& json) {
  constexpr size_t kMost = 100;
  return Printable(json.dump(-1, ' ', true).substr(0, kMost));
}

int64_t WholeIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) {
    BadCocoFile(StrCat("has no whole number \"", key, "\": ", CocoTextOf(object)));
  }
  return found->get<int64_t>();
}

std::string TextIn(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    BadCocoFile(StrCat("has no text \"", key, "\": ", CocoTextOf(object)));
  return found->get<std::string>();
}

std::vector<double> CocoNumbersOf(const Json& list, const char* what) {
  std::vector<double> numbers;
  for (const Json& number : list) {
    if (!number.is_number()) BadCocoFile(StrCat("its ", what, " has ", CocoTextOf(number), ", expected numbers"));
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

void ReadSegmentation(const Json& json, CocoAnnotation& object) {
  if (json.is_array()) {
    for (const Json& polygon : json) {
      if (!polygon.is_array()) BadCocoFile("its segmentation is no list of polygons");
      object.polygons.push_back(CocoNumbersOf(polygon, "polygon"));
    }
    return;
  }
  const auto size = json.find("size");
  const auto counts = json.find("counts");
  if (!json.is_object() || size == json.end() || counts == json.end()) {
    BadCocoFile("its segmentation is neither a list of polygons nor run lengths (\"size\" and \"counts\")");
  }
  const std::vector<double> sides = CocoNumbersOf(*size, "size");
  if (sides.size() != 2 || !(sides[0] >= 1 && sides[0] <= kMostSide && sides[1] >= 1 && sides[1] <= kMostSide)) {
    BadCocoFile(StrCat("its segmentation's size is ", CocoTextOf(*size), ", expected [height, width]"));
  }
  object.runs_size = {static_cast<int64_t>(sides[1]), static_cast<int64_t>(sides[0])};
  if (counts->is_string()) {
    object.runs = RunLengthsOf(std::string_view(counts->get_ref<const std::string&>()));
    return;
  }
  for (const Json& count : *counts) {
    if (!count.is_number_unsigned() || count.get<uint64_t>() > UINT32_MAX) {
      BadCocoFile(StrCat("its run lengths have \"", CocoTextOf(count), "\""));
    }
    object.runs.push_back(count.get<uint32_t>());
  }
}

// "keypoints": x, y and the flag of each point.
void ReadPoints(const Json& json, CocoAnnotation& object) {
  const auto found = json.find("keypoints");
  if (found != json.end() && !found->is_null()) {
    if (!found->is_array()) BadCocoFile("its keypoints are no list");
    const std::vector<double> numbers = CocoNumbersOf(*found, "keypoints");
    if (numbers.size() % 3 != 0)
      BadCocoFile(StrCat("its keypoints are ", numbers.size(), " numbers, expected three a point"));
    for (size_t i = 0; i < numbers.size(); i += 3) {
      const double flag = numbers[i + 2];
      if (flag != 0 && flag != 1 && flag != 2) {
        BadCocoFile(StrCat("key point ", i / 3 + 1, " has the flag ", flag, ", expected 0, 1 or 2"));
      }
      if (std::abs(numbers[i]) > kMostSide || std::abs(numbers[i + 1]) > kMostSide) {
        BadCocoFile(
            StrCat("key point ", i / 3 + 1, " is at (", numbers[i], ", ", numbers[i + 1], "), which no picture holds"));
      }
      object.points.push_back({numbers[i], numbers[i + 1], static_cast<CocoPoint::Flag>(flag)});
    }
  }
  if (!json.contains("num_keypoints")) return;
  const int64_t stated = WholeIn(json, "num_keypoints");
  const auto labelled = std::ranges::count_if(
      object.points, [](const CocoPoint& point) { return point.flag != CocoPoint::Flag::kNotLabelled; });
  if (stated != labelled) BadCocoFile(StrCat("its num_keypoints is ", stated, ", and ", labelled, " are labelled"));
}

struct CocoCategory {
  std::string name;
  std::vector<std::string> points = {};
  std::vector<std::pair<uint32_t, uint32_t>> skeleton = {};
};

CocoCategory CategoryOf(const Json& json) {
  CocoCategory category{.name = TextIn(json, "name")};
  const auto points = json.find("keypoints");
  if (points == json.end() || points->is_null()) return category;
  if (!points->is_array()) BadCocoFile("its keypoints are no list");
  for (const Json& name : *points) {
    if (!name.is_string()) BadCocoFile(StrCat("its keypoints have ", CocoTextOf(name), ", expected names"));
    if (std::ranges::find(category.points, name.get<std::string>()) != category.points.end()) {
      BadCocoFile(StrCat("has the key point ", CocoTextOf(name), " twice"));
    }
    category.points.push_back(name.get<std::string>());
  }
  const auto skeleton = json.find("skeleton");
  if (skeleton == json.end() || skeleton->is_null()) return category;
  for (const Json& pair : *skeleton) {
    const auto is_point = [&](const Json& at) {
      return at.is_number_unsigned() && at.get<uint64_t>() >= 1 && at.get<uint64_t>() <= category.points.size();
    };
    if (!pair.is_array() || pair.size() != 2 || !is_point(pair[0]) || !is_point(pair[1])) {
      BadCocoFile(StrCat("its skeleton has ", CocoTextOf(pair), ", expected two of 1..", category.points.size()));
    }
    category.skeleton.emplace_back(pair[0].get<uint32_t>() - 1, pair[1].get<uint32_t>() - 1);
  }
  return category;
}

// A file's text, read piece by piece as it is asked for: annotations of a large set have gigabytes.
class CocoText : public std::streambuf {
 public:
  explicit CocoText(const std::filesystem::path& path) : path_(path), file_(OpenFile::ForReading(path)) {}

  uint32_t crc32c() const { return crc32c_; }

 protected:
  int_type underflow() override {
    const int64_t got = file_.ReadAt(at_, piece_.data(), std::ssize(piece_), path_);
    if (got == 0) return traits_type::eof();
    const std::string_view piece = std::string_view(piece_).substr(0, static_cast<size_t>(got));
    if (piece.find('\0') != std::string_view::npos) BadCocoFile("this is no JSON: it holds a byte of zero");
    crc32c_ = Crc32c(piece, crc32c_);
    at_ += got;
    setg(piece_.data(), piece_.data(), piece_.data() + got);
    return traits_type::to_int_type(piece_[0]);
  }

 private:
  const std::filesystem::path& path_;
  OpenFile file_;
  int64_t at_ = 0;
  uint32_t crc32c_ = 0;
  std::string piece_ = std::string(size_t{1} << 20U, '\0');
};

// Reads the objects of the file before any id is looked up, as an id may be defined after its use.
class CocoReader {
 public:
  explicit CocoReader(const std::function<void()>& step) : step_(step) {}

  void Read(std::istream& text) {
    std::string list;
    // Bounds of the part held at a time: the parser looks through all that an object holds whenever it drops a part of
    // it.
    const JsonBounds bounds{.depth = 32, .values = 200'000};
    int64_t values = 0;
    const auto keep = [&](int depth, Json::parse_event_t event, Json& json) {
      if (depth > bounds.depth) BadCocoFile(StrCat("JSON that is nested more than ", bounds.depth, " deep"));
      if (++values > bounds.values) BadCocoFile(StrCat("JSON of more than ", bounds.values, " values in one object"));
      if (event == Json::parse_event_t::key) CheckKey(depth, json.get_ref<const std::string&>());
      if (depth == 1 && event == Json::parse_event_t::key) list = json.get<std::string>();
      if (depth != 2 || event != Json::parse_event_t::object_end) return true;
      step_();
      values = 0;
      keys_.clear();
      Take(list, json);
      return false;  // so that no more than one object is held as JSON
    };
    const Json json = Parsed(text, keep);
    if (!json.is_object()) BadCocoFile("this is no JSON object");
    for (const char* name : {"images", "annotations", "categories"}) {
      if (!json.contains(name)) BadCocoFile(StrCat("has no list \"", name, "\""));
    }
  }

  CocoFile Finish() {
    std::map<int64_t, int32_t> labels;
    std::set<int64_t> used;  // categories' ids
    file_.classes.emplace_back("none");
    for (const auto& [id, category] : categories_) {
      labels.emplace(id, static_cast<int32_t>(labels.size()) + 1);
      file_.classes.push_back(category.name);
      TakePoints(category);
    }
    for (Listed& listed : objects_) {
      const auto picture = pictures_.find(listed.picture);
      const auto label = labels.find(listed.category);
      const std::string name = StrCat("annotation ", listed.object.id);
      if (picture == pictures_.end())
        BadCocoFile(StrCat(name, " is of image ", listed.picture, ", which is not listed"));
      if (label == labels.end())
        BadCocoFile(StrCat(name, " is of category ", listed.category, ", which is not listed"));
      used.insert(listed.category);
      listed.object.label = label->second;
      const CocoCategory& category = categories_.at(listed.category);
      if (!listed.object.points.empty() && listed.object.points.size() != category.points.size()) {
        BadCocoFile(StrCat(name, " has ", listed.object.points.size(), " key points, its category \"",
                           Printable(category.name), "\" ", category.points.size()));
      }
      file_.pictures[picture->second].objects.push_back(std::move(listed.object));
    }
    CheckNamesOf(used);
    if (file_.pictures.empty()) BadCocoFile("no images");
    return std::move(file_);
  }

 private:
  // Errors: kBadData with the line, the column and what the parser met there.
  Json Parsed(std::istream& text, const Json::parser_callback_t& keep) const {
    try {
      return Json::parse(text, keep);
    } catch (const Json::parse_error& error) {
      const std::string_view told = error.what();
      const size_t begin = std::min(told.find("at line"), told.size());
      BadCocoFile(StrCat("this is no JSON ", Printable(told.substr(begin)), last_.empty() ? "" : ", behind ", last_));
    }
  }

  struct Listed {
    int64_t picture = 0;  // id
    int64_t category = 0;
    CocoAnnotation object;
  };

  static bool IsOurs(const std::string& list) {
    return list == "images" || list == "categories" || list == "annotations";
  }

  // JSON does not say which of two values of one name counts.
  void CheckKey(int depth, const std::string& key) {
    constexpr int kOfObject = 3;
    if (depth != kOfObject && !(depth == 1 && IsOurs(key))) return;
    if ((depth == 1 ? lists_ : keys_).insert(key).second) return;
    const std::string behind = last_.empty() ? "the first object" : StrCat("the object behind ", last_);
    BadCocoFile(StrCat(depth == 1 ? "" : behind, depth == 1 ? "has \"" : " has \"", Printable(key), "\" twice"));
  }

  // Names that a list of classes keeps, each once: two categories of one name would be two classes of objects. One of
  // them may be there for its name alone: exporters list a group of classes under the name of a class.
  void CheckNamesOf(const std::set<int64_t>& used) const {
    std::unordered_map<std::string_view, int64_t> named;
    for (const int64_t id : used) {
      const std::string& name = categories_.at(id).name;
      if (const std::string fault = ClassNameFault(name); !fault.empty())
        BadCocoFile(StrCat("category ", id, ": its name \"", Printable(name), "\" ", fault));
      const auto [known, is_new] = named.emplace(name, id);
      if (is_new) continue;
      BadCocoFile(StrCat("category ", id, ": its name \"", Printable(name), "\" is that of category ", known->second));
    }
  }

  // Boxes of one data set have the same points.
  void TakePoints(const CocoCategory& category) {
    if (category.points.empty()) return;
    const bool is_first = file_.point_names.empty();
    if (!is_first && (file_.point_names != category.points || file_.skeleton != category.skeleton)) {
      BadCocoFile(
          StrCat("the category \"", Printable(category.name), "\" has other key points than the one before it"));
    }
    file_.point_names = category.points;
    file_.skeleton = category.skeleton;
  }

  void Take(const std::string& list, const Json& json) {
    if (!IsOurs(list)) return;
    const int64_t id = WholeIn(json, "id");
    last_ = StrCat(list == "images" ? "image " : list == "categories" ? "category " : "annotation ", id);
    try {
      if (list == "images") TakePicture(id, json);
      if (list == "categories") TakeCategory(id, CategoryOf(json));
      if (list == "annotations") TakeObject(id, json);
    } catch (const Error& e) {
      BadCocoFile(StrCat(last_, ": ", e.text()));
    }
  }

  void TakeCategory(int64_t id, CocoCategory category) {
    if (!categories_.emplace(id, std::move(category)).second) BadCocoFile("is listed twice");
  }

  void TakePicture(int64_t id, const Json& json) {
    CocoPicture picture;
    picture.file = TextIn(json, "file_name");
    if (json.contains("width") && json.contains("height")) {
      picture.size = {WholeIn(json, "width"), WholeIn(json, "height")};
    }
    if (!pictures_.emplace(id, file_.pictures.size()).second) BadCocoFile("is listed twice");
    const auto [named, is_new] = files_.emplace(picture.file, id);
    if (!is_new) BadCocoFile(StrCat("its file \"", Printable(picture.file), "\" is that of image ", named->second));
    picture.id = id;
    file_.pictures.push_back(std::move(picture));
  }

  void TakeObject(int64_t id, const Json& json) {
    const auto box = json.find("bbox");
    if (box == json.end() || !box->is_array() || box->size() != 4) BadCocoFile("has no \"bbox\" of four numbers");
    const std::vector<double> b = CocoNumbersOf(*box, "bbox");
    Listed listed;
    listed.picture = WholeIn(json, "image_id");
    listed.category = WholeIn(json, "category_id");
    listed.object.id = id;
    listed.object.box = {b[0], b[1], b[0] + b[2], b[1] + b[3]};
    if (!annotations_.insert(id).second) BadCocoFile("is listed twice");
    listed.object.is_crowd = CrowdFlagOf(json);
    const auto segmentation = json.find("segmentation");
    if (segmentation != json.end() && !segmentation->is_null()) ReadSegmentation(*segmentation, listed.object);
    ReadPoints(json, listed.object);
    file_.has_masks = file_.has_masks || HasOutline(listed.object);
    objects_.push_back(std::move(listed));
  }

  const std::function<void()>& step_;
  CocoFile file_;
  std::map<int64_t, size_t> pictures_;  // by id
  std::map<int64_t, CocoCategory> categories_;
  std::unordered_map<std::string, int64_t> files_;  // of pictures: their ids
  std::unordered_set<int64_t> annotations_;         // ids
  std::unordered_set<std::string> lists_;           // names met at the top, of the lists that are read
  std::unordered_set<std::string> keys_;            // names met in the present object
  std::vector<Listed> objects_;
  std::string last_;  // what was read last: "annotation 7"
};

}  // namespace

CocoFile ReadCocoFile(const std::filesystem::path& path, const std::function<void()>& step) {
  CocoText text(path);
  RecordWarnings none;
  CocoFile file;
  InFile(path.string(), none, [&] {
    CocoReader reader(step);
    std::istream stream(&text);
    reader.Read(stream);
    file = reader.Finish();
  });
  file.crc32c = text.crc32c();
  return file;
}

bool HasOutline(const CocoAnnotation& object) { return !object.polygons.empty() || !object.runs.empty(); }

RunLengths PixelsOf(const CocoAnnotation& object, const PictureSize& size) {
  std::vector<RunLengths> parts;
  for (const std::vector<double>& polygon : object.polygons) {
    parts.push_back(RunLengthsOf(polygon, size.width, size.height));
  }
  if (!HasOutline(object)) {
    const double right = std::clamp<double>(object.box.xmax, 0, static_cast<double>(size.width));
    const double bottom = std::clamp<double>(object.box.ymax, 0, static_cast<double>(size.height));
    const double left = std::clamp<double>(object.box.xmin, 0, right);
    const double top = std::clamp<double>(object.box.ymin, 0, bottom);
    parts.push_back(
        RunLengthsOf(std::array{left, top, right, top, right, bottom, left, bottom}, size.width, size.height));
  } else if (parts.empty()) {
    if (object.runs_size.width != size.width || object.runs_size.height != size.height) {
      BadCocoFile(StrCat("has run lengths of a picture of ", object.runs_size.width, " x ", object.runs_size.height));
    }
    parts.push_back(object.runs);
  }
  return Union(parts, size.width, size.height);
}

}  // namespace moka
