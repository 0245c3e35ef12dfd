// Annotation files. Differences from SSD's reader, which loses what it does not expect: corners may have fractions of
// a pixel (VOC 2012 has some), a corner that is missing is an error and not 0, and an object's fields may stand in any
// order.
#include "data/labels/annotation_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/text.h"
#include "data/files/list_text.h"
#include "data/labels/crowd_flag.h"
#include "data/labels/label_map.h"
#include "data/labels/xml_document.h"
#include "data/records/class_names.h"
#include "proto/moka.pb.h"

namespace moka {
namespace {

[[noreturn]] void BadAnnotationFile(std::string text, std::string hint = {}) {
  throw Error(ErrorKind::kBadData, {}, std::move(text), std::move(hint));
}

void CheckNameAt(const std::string& name, const std::string& place) {
  const std::string fault = ClassNameFault(name);
  if (!fault.empty()) BadAnnotationFile(StrCat(place, ": the class \"", Printable(name), "\" ", fault));
}

double AnnotationNumberOf(std::string_view text, std::string_view what) {
  const std::string_view trimmed = Trim(text);
  double value = 0;
  const auto read = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (trimmed.empty() || read.ec != std::errc() || read.ptr != trimmed.data() + trimmed.size() ||
      !std::isfinite(value)) {
    BadAnnotationFile(StrCat(what, " is no number: \"", Printable(trimmed), "\""));
  }
  return value;
}

// Collects the objects of a picture.
class ObjectWriter {
 public:
  ObjectWriter(const PictureSize& size, AnnotatedObjects& found, RecordWarnings& warnings)
      : found_(found), warnings_(warnings) {
    if (size.width < 1 || size.height < 1)
      BadAnnotationFile(StrCat("the picture's size is ", size.width, " x ", size.height));
    found_.size = size;
  }

  void Add(int32_t label, const PixelBox& c, bool difficult) {
    const PictureSize& size = found_.size;
    const auto w = static_cast<double>(size.width);
    const auto h = static_cast<double>(size.height);
    if (std::min({c.xmin, c.ymin, c.xmax, c.ymax}) < 0 || std::max(c.xmin, c.xmax) > w || std::max(c.ymin, c.ymax) > h)
      warnings_.push_back(ReachesOutside(NameOf(c), size));
    if (c.xmin > c.xmax || c.ymin > c.ymax) warnings_.push_back({StrCat(NameOf(c), " has its corners swapped")});
    found_.objects.push_back({label, c, difficult});
  }

 private:
  static std::string NameOf(const PixelBox& box) { return StrCat("the box ", box.ToText()); }

  AnnotatedObjects& found_;
  RecordWarnings& warnings_;
};

AnnotationGroup& GroupOf(int32_t label, AnnotatedDatum& record) {
  for (AnnotationGroup& group : *record.mutable_annotation_group()) {
    if (group.group_label() == label) return group;
  }
  AnnotationGroup& group = *record.add_annotation_group();
  group.set_group_label(label);
  return group;
}

// A size as it stands in the file.
PictureSize StatedSizeOf(double width, double height) {
  constexpr int32_t kMost = 1 << 24;
  for (const double side : {width, height}) {
    if (side >= 1 && side <= kMost && side == std::floor(side)) continue;
    BadAnnotationFile(
        StrCat("the picture's size is ", width, " x ", height, ", expected whole numbers of pixels, 1..", kMost));
  }
  return {static_cast<int64_t>(width), static_cast<int64_t>(height)};
}

// The size boxes are measured in.
PictureSize AnnotationSizeOf(std::optional<PictureSize> stated, const PictureSize& picture, RecordWarnings& warnings) {
  if (!stated) {
    warnings.push_back({"no size is stated: the picture's is used"});
    return picture;
  }
  if (stated->width != picture.width && stated->width == picture.height && stated->height == picture.width) {
    BadAnnotationFile(StrCat("the size stated is ", stated->width, " x ", stated->height, " and the picture's ",
                             picture.width, " x ", picture.height, ": width and height are swapped"),
                      "an EXIF orientation may turn the picture: let the boxes and the size be those of the picture "
                      "upright");
  }
  if (stated->width != picture.width || stated->height != picture.height) {
    warnings.push_back(
        {StrCat("the size stated is ", stated->width, " x ", stated->height, " and the picture's ", picture.width,
                " x ", picture.height, ": the boxes are taken as parts of the size stated")});
  }
  return *stated;
}

int32_t AnnotationLabelOf(const std::string& name, const std::map<std::string, int32_t>& labels) {
  const auto found = labels.find(name);
  if (found != labels.end() && found->second == 0 && IsBackgroundName(name)) {
    BadAnnotationFile(StrCat("an object is called \"", Printable(name), "\", the name of what is none"));
  }
  if (found != labels.end()) return found->second;
  std::vector<std::string> names;
  names.reserve(labels.size());
  for (const auto& [known, label] : labels) names.push_back(known);
  BadAnnotationFile(StrCat("the label map has no name \"", Printable(name), "\""), DidYouMean(name, names));
}

// ---- XML ----

double NumberIn(const xmlNode& node, std::string_view child) {
  return AnnotationNumberOf(XmlTextOf(node, child), StrCat("line ", xmlGetLineNo(&node), ": <", child, ">"));
}

std::string NameOfObject(const xmlNode& object) {
  std::string name = XmlTextOf(object, "name");
  if (name.empty()) {
    BadAnnotationFile(StrCat("line ", xmlGetLineNo(ChildOf(object, "name")), ": <name> is empty, expected a class"));
  }
  CheckNameAt(name, StrCat("line ", xmlGetLineNo(ChildOf(object, "name"))));
  return name;
}

// Tools for labelling leave it empty, or write a word.
bool IsDifficult(const xmlNode& object, RecordWarnings& warnings) {
  const xmlNode* const difficult = ChildOf(object, "difficult");
  const std::string text = difficult == nullptr ? std::string() : XmlTextOf(*difficult);
  if (text == "1" || text == "true" || text == "True") return true;
  if (!text.empty() && text != "0" && text != "false" && text != "False") {
    warnings.push_back({StrCat("line ", xmlGetLineNo(difficult), ": <difficult> is \"", Printable(text),
                               "\", expected 0 or 1: it is taken for 0")});
  }
  return false;
}

// Parses an <annotation>.
XmlDocument ParseXml(std::string_view text) {
  if (std::ssize(text) > kAnnotationLimitBytes)
    BadAnnotationFile(StrCat("an annotation file of ", text.size(), " bytes"));
  return ParseXmlText(text, "annotation");
}

template <class Visit>
void VisitObjects(const xmlNode& root, Visit&& visit) {
  for (const xmlNode* node = root.children; node != nullptr; node = node->next) {
    if (node->type == XML_ELEMENT_NODE && XmlNameOf(*node) == "object") visit(*node);
  }
}

void ReadXml(std::string_view text, const std::map<std::string, int32_t>& labels, const PictureSize& picture,
             AnnotatedObjects& found, RecordWarnings& warnings) {
  const XmlDocument document = ParseXml(text);
  const xmlNode& root = *xmlDocGetRootElement(document.get());
  std::optional<PictureSize> stated;
  if (const xmlNode* const size = ChildOf(root, "size"); size != nullptr) {
    stated = StatedSizeOf(NumberIn(*size, "width"), NumberIn(*size, "height"));
  }
  ObjectWriter writer(AnnotationSizeOf(stated, picture, warnings), found, warnings);
  VisitObjects(root, [&](const xmlNode& object) {
    const xmlNode* const box = ChildOf(object, "bndbox");
    if (box == nullptr) BadAnnotationFile(StrCat("line ", xmlGetLineNo(&object), ": <object> has no <bndbox>"));
    const PixelBox corners = {NumberIn(*box, "xmin"), NumberIn(*box, "ymin"), NumberIn(*box, "xmax"),
                              NumberIn(*box, "ymax")};
    writer.Add(AnnotationLabelOf(NameOfObject(object), labels), corners, IsDifficult(object, warnings));
  });
}

// ---- JSON ----

using Json = nlohmann::json;

double NumberIn(const Json& json, std::string_view what) {
  if (!json.is_number()) BadAnnotationFile(StrCat(what, " is no number: ", Printable(json.dump(-1, ' ', true))));
  return json.get<double>();
}

void ReadJson(std::string_view text, const std::map<std::string, int32_t>& labels, const PictureSize& picture,
              AnnotatedObjects& found, RecordWarnings& warnings) {
  CheckJsonBounds(text, {});
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) BadAnnotationFile("this is no JSON");
  std::optional<PictureSize> stated;
  if (const auto size = json.find("image"); size != json.end() && size->contains("width") && size->contains("height")) {
    stated = StatedSizeOf(NumberIn((*size)["width"], "image.width"), NumberIn((*size)["height"], "image.height"));
  }
  ObjectWriter writer(AnnotationSizeOf(stated, picture, warnings), found, warnings);
  const auto objects = json.find("annotation");
  if (objects == json.end() || !objects->is_array()) BadAnnotationFile("the JSON has no list \"annotation\"");
  for (const Json& object : *objects) {
    const auto category = object.find("category_id");
    const auto box = object.find("bbox");
    if (category == object.end()) BadAnnotationFile("an object of \"annotation\" has no \"category_id\"");
    if (box == object.end() || !box->is_array() || box->size() != 4) {
      BadAnnotationFile("an object of \"annotation\" has no \"bbox\" of four numbers");
    }
    const std::string name = category->is_string() ? category->get<std::string>() : category->dump(-1, ' ', true);
    const double x = NumberIn((*box)[0], "bbox[0]");
    const double y = NumberIn((*box)[1], "bbox[1]");
    const PixelBox corners = {x, y, x + NumberIn((*box)[2], "bbox[2]"), y + NumberIn((*box)[3], "bbox[3]")};
    writer.Add(AnnotationLabelOf(name, labels), corners, CrowdFlagOf(object));
  }
}

// ---- Text ----

// Checks the label of a text's box. Without a label map any number is one.
void CheckTextLabel(int32_t label, const std::map<std::string, int32_t>& labels, int line) {
  if (labels.empty()) return;
  const auto item = std::ranges::find_if(labels, [&](const auto& known) { return known.second == label; });
  if (item == labels.end()) {
    std::set<int32_t> numbers;
    for (const auto& [name, number] : labels) numbers.insert(number);
    BadAnnotationFile(StrCat("line ", line, ": the label map has no label ", label, ", its labels are in ",
                             *numbers.begin(), "..", *numbers.rbegin()));
  }
  if (label == 0 && IsBackgroundName(item->first)) {
    BadAnnotationFile(StrCat("line ", line, ": label 0 is \"", Printable(item->first), "\" in the label map, which ",
                             "stands for no object"));
  }
}

// Whether all corners are parts of the picture's sides. A box of a whole pixel has corners of 0 and 1.
bool AreNormalized(const std::vector<AnnotatedObject>& objects) {
  bool has_fraction = false;
  for (const AnnotatedObject& object : objects) {
    for (const double at : {object.box.xmin, object.box.ymin, object.box.xmax, object.box.ymax}) {
      if (at < 0 || at > 1) return false;
      has_fraction = has_fraction || at != std::floor(at);
    }
  }
  return has_fraction;
}

std::vector<double> NumbersOfLine(std::string_view line, int line_number) {
  std::vector<double> numbers;
  for (std::string_view rest = Trim(line); !rest.empty();) {
    const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    numbers.push_back(AnnotationNumberOf(rest.substr(0, end), StrCat("line ", line_number, ": a value")));
    rest = Trim(rest.substr(end));
  }
  return numbers;
}

// Returns what a line of so many numbers may be instead of a box.
std::string HintOfCount(size_t numbers) {
  if (numbers == 6) return "a sixth number is a confidence: these are a detector's boxes, not labels";
  if (numbers > 6 && numbers % 2 == 1)
    return "these may be outlines or key points, which are read from COCO's JSON alone";
  return {};
}

// The lines of a file that a person's program may have written. Errors: those of ListText, with the line in the text.
std::string LinesOf(std::string_view text) {
  try {
    return ListText(std::string(text), {});
  } catch (const Error& error) {
    BadAnnotationFile(StrCat("line ", error.place().line, ": ", error.text()), error.hint());
  }
}

// Calls visit(line, numbers) for each line; they are five, the first of which is whole.
template <class Visit>
void VisitTextLines(std::string_view text, std::string_view expected, Visit&& visit) {
  constexpr double kMostLabels = 1 << 24;
  int line_number = 0;
  for (const std::string& line : Split(LinesOf(text), '\n')) {
    const std::vector<double> numbers = NumbersOfLine(line, ++line_number);
    if (numbers.empty()) continue;
    if (numbers.size() != 5 || numbers[0] != std::floor(numbers[0]) || std::abs(numbers[0]) > kMostLabels) {
      BadAnnotationFile(
          StrCat("line ", line_number, ": expected \"", expected, "\", found \"", Printable(Trim(line)), "\""),
          HintOfCount(numbers.size()));
    }
    visit(line_number, numbers);
  }
}

void ReadYolo(std::string_view text, const std::map<std::string, int32_t>& labels, const PictureSize& picture,
              AnnotatedObjects& found, RecordWarnings& warnings) {
  ObjectWriter writer(picture, found, warnings);
  VisitTextLines(text, "class x y width height", [&](int line, const std::vector<double>& numbers) {
    for (size_t i = 1; i < numbers.size(); ++i) {
      if (numbers[i] >= 0 && numbers[i] <= 1) continue;
      BadAnnotationFile(StrCat("line ", line, ": ", numbers[i], " is no part of the picture's side, expected 0..1"),
                        "corners in pixels are read by boxes:LIST,LABELMAP");
    }
    if (numbers[0] < 0 || numbers[0] >= static_cast<double>(labels.size())) {
      BadAnnotationFile(StrCat("line ", line, ": class ", numbers[0], " has no name, expected 0..", labels.size() - 1));
    }
    // The files have six decimals: boxes that touch a border end a little outside.
    const auto pixel = [](double part, int64_t pixels) {
      constexpr double kRounding = 0.5;
      const auto side = static_cast<double>(pixels);
      const double inside = std::clamp(part * side, 0.0, side);
      return std::abs(part * side - inside) < kRounding ? inside : part * side;
    };
    const auto [x, y, width, height] = std::array{numbers[1], numbers[2], numbers[3], numbers[4]};
    writer.Add(static_cast<int32_t>(numbers[0]) + 1,
               {pixel(x - width / 2, picture.width), pixel(y - height / 2, picture.height),
                pixel(x + width / 2, picture.width), pixel(y + height / 2, picture.height)},
               false);
  });
}

void ReadText(std::string_view text, const std::map<std::string, int32_t>& labels, const PictureSize& picture,
              AnnotatedObjects& found, RecordWarnings& warnings) {
  ObjectWriter writer(picture, found, warnings);
  VisitTextLines(text, "label xmin ymin xmax ymax", [&](int line, const std::vector<double>& numbers) {
    const auto label = static_cast<int32_t>(numbers[0]);
    CheckTextLabel(label, labels, line);
    writer.Add(label, {numbers[1], numbers[2], numbers[3], numbers[4]}, false);
  });
  if (AreNormalized(found.objects)) {
    BadAnnotationFile("all numbers lie in 0..1, normalised as YOLO writes them; expected corners in pixels",
                      "import yolo:PICTURES,LABELS,CLASSES reads such files");
  }
}

}  // namespace

AnnotationFormat AnnotationFormatNamed(std::string_view name) {
  if (name == "xml") return AnnotationFormat::kXml;
  if (name == "json") return AnnotationFormat::kJson;
  if (name == "txt") return AnnotationFormat::kText;
  throw Error(ErrorKind::kUsage, StrCat("annotation files are xml, json or txt, found \"", Printable(name), "\""));
}

std::string PixelBox::ToText() const { return StrCat(xmin, " ", ymin, " ", xmax, " ", ymax); }

RecordWarning ReachesOutside(std::string_view name, const PictureSize& size) {
  return {StrCat(name, " reaches outside the picture of ", size.width, " x ", size.height), RecordWarning::Kind::kBox};
}

AnnotatedObjects ReadObjects(std::string_view text, AnnotationFormat format,
                             const std::map<std::string, int32_t>& labels, const PictureSize& picture,
                             RecordWarnings& warnings) {
  AnnotatedObjects found;
  switch (format) {
    case AnnotationFormat::kXml: ReadXml(text, labels, picture, found, warnings); break;
    case AnnotationFormat::kJson: ReadJson(text, labels, picture, found, warnings); break;
    case AnnotationFormat::kYolo: ReadYolo(text, labels, picture, found, warnings); break;
    case AnnotationFormat::kText: ReadText(text, labels, picture, found, warnings); break;
  }
  return found;
}

void InFile(const std::string& file, RecordWarnings& warnings, const std::function<void()>& read) {
  const size_t before = warnings.size();
  try {
    read();
  } catch (const Error& e) {
    throw Error(e.kind(), {}, StrCat(file, ": ", e.text()), e.hint());
  }
  for (size_t i = before; i < warnings.size(); ++i) warnings[i].text = StrCat(file, ": ", warnings[i].text);
}

std::set<std::string> ClassesInXml(std::string_view text) {
  std::set<std::string> classes;
  const XmlDocument document = ParseXml(text);
  VisitObjects(*xmlDocGetRootElement(document.get()),
               [&](const xmlNode& object) { classes.insert(NameOfObject(object)); });
  return classes;
}

void ReadAnnotations(std::string_view text, AnnotationFormat format, const std::map<std::string, int32_t>& labels,
                     const PictureSize& picture, AnnotatedDatum& record, RecordWarnings& warnings) {
  const AnnotatedObjects found = ReadObjects(text, format, labels, picture, warnings);
  const auto w = static_cast<double>(found.size.width);
  const auto h = static_cast<double>(found.size.height);
  for (const AnnotatedObject& object : found.objects) {
    AnnotationGroup& group = GroupOf(object.label, record);
    Annotation& annotation = *group.add_annotation();
    annotation.set_instance_id(group.annotation_size() - 1);
    NormalizedBBox& to = *annotation.mutable_bbox();
    to.set_xmin(static_cast<float>(object.box.xmin / w));
    to.set_ymin(static_cast<float>(object.box.ymin / h));
    to.set_xmax(static_cast<float>(object.box.xmax / w));
    to.set_ymax(static_cast<float>(object.box.ymax / h));
    to.set_difficult(object.is_difficult);
  }
}

}  // namespace moka
