// Parses by protobuf and then checks what its types cannot say: sizes, classes, points and runs against the schema.
#include "data/records/sample_record.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/error.h"
#include "core/exact_float.h"
#include "core/text.h"
#include "proto/text/text_format.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoFloat = ", which a net's floats cannot hold";

[[noreturn]] void BadSampleRecord(const std::string& text) { throw Error(ErrorKind::kBadData, text); }

void CheckSampleRecordCount(std::string_view what, int found, int expected) {
  if (found != expected) BadSampleRecord(StrCat("it has ", found, " ", what, ", by the database's schema ", expected));
}

bool IsPart(float value) { return value >= 0 && value <= 1; }

bool IsFinite(const SamplePoint& point) { return std::isfinite(point.x()) && std::isfinite(point.y()); }

void CheckBox(const SampleBox& box, int at, const SampleSchema& schema) {
  const bool is_ordered = box.xmin() <= box.xmax() && box.ymin() <= box.ymax();
  if (!is_ordered || !IsPart(box.xmin()) || !IsPart(box.ymin()) || !IsPart(box.xmax()) || !IsPart(box.ymax())) {
    BadSampleRecord(StrCat("box ", at, " is from (", box.xmin(), ", ", box.ymin(), ") to (", box.xmax(), ", ",
                           box.ymax(), "), expected fractions of the picture in order"));
  }
  const int classes = schema.box_class_size();
  if (box.label() < 1 || (classes > 0 && box.label() >= classes)) {
    BadSampleRecord(StrCat("box ", at, " has the class ", box.label(), ", expected 1",
                           classes > 0 ? StrCat("..", classes - 1) : " or more"));
  }
  if (!box.run().empty() && !schema.box_masks())
    BadSampleRecord(StrCat("box ", at, " has a mask, by the schema boxes have none"));
  if (box.point_size() > 0 && box.point_size() != schema.box_point_size()) {
    BadSampleRecord(
        StrCat("box ", at, " has ", box.point_size(), " points, by the database's schema ", schema.box_point_size()));
  }
  if (!std::ranges::all_of(box.point(), IsFinite))
    BadSampleRecord(StrCat("a point of box ", at, " is not of finite numbers"));
}

// Errors: kBadData for what no record could keep to.
void CheckPoints(const fs::path& file, const SampleSchema& schema) {
  const auto bad = [&](const std::string& text) { BadSampleRecord(StrCat(file.string(), ": ", text)); };
  if (schema.point_size() > 0 && schema.box_point_size() > 0) {
    bad("it has `point` and `box_point`: points belong to the picture or to its boxes");
  }
  if (schema.box_point_size() > 0 && !schema.boxes()) bad("it has `box_point` without `boxes: true`");
  const auto points = static_cast<uint32_t>(schema.box_point_size());
  for (const PointLink& link : schema.skeleton()) {
    if (link.from() < points && link.to() < points) continue;
    bad(StrCat("its skeleton joins the points ", link.from(), " and ", link.to(), ", and a box has ", points));
  }
}

// A box with a mask, as it is painted.
struct InstanceLayer {
  int kind = 0;  // lower ones lie beneath
  int64_t area = 0;
  int box = 0;
};

// Objects that a layer may leave out lie beneath, so that they hide no object that stays.
int InstanceKind(const SampleBox& box) { return box.crowd() ? 0 : box.difficult() ? 1 : 2; }

// How many pixels are box i's. Errors: kBadData unless its runs make a picture of this size.
int64_t InstanceArea(const SampleRecord& record, int i, int64_t height, int64_t width) {
  const int64_t pixels = height * width;
  int64_t at = 0;
  int64_t area = 0;
  bool is_object = false;
  for (const uint32_t run : record.box(i).run()) {
    if (is_object) area += run;
    at += run;
    is_object = !is_object;
    if (at > pixels) break;
  }
  if (at == pixels) return area;
  BadSampleRecord(StrCat("the runs of box ", i, at < pixels ? " end before" : " go on beyond", " its picture of ",
                         height, "x", width, " pixels"));
}

// Requires: InstanceArea found no fault.
void PaintInstance(const SampleRecord& record, int i, int64_t height, int64_t width, InstancePictures& instances) {
  int64_t at = 0;  // down the columns
  bool is_object = false;
  for (const uint32_t run : record.box(i).run()) {
    for (int64_t p = at; is_object && p < at + run; ++p) {
      const auto pixel = static_cast<size_t>(p % height * width + p / height);
      instances.low.pixels[pixel] = static_cast<uint8_t>(i + 1);
      instances.high.pixels[pixel] = static_cast<uint8_t>((i + 1) >> 8);
    }
    at += run;
    is_object = !is_object;
  }
}

}  // namespace

bool HasSampleSchema(const fs::path& database) {
  std::error_code ignored;
  return fs::is_regular_file(database / kSchemaFile, ignored);
}

SampleSchema ReadSampleSchema(const fs::path& database) {
  const fs::path file = database / kSchemaFile;
  SampleSchema schema;
  ParseText(ReadTextFile(file, "a schema of records"), file.string(), schema);
  if (schema.version() > kSampleVersion) {
    throw Error(ErrorKind::kBadData, StrCat(file.string(), ": its records are of version ", schema.version(),
                                            ", this program reads up to ", kSampleVersion));
  }
  CheckPoints(file, schema);
  return schema;
}

void ParseSample(std::string_view wire, const SampleSchema& schema, SampleRecord& record) {
  if (wire.size() > INT32_MAX || !record.ParseFromArray(wire.data(), static_cast<int>(wire.size()))) {
    BadSampleRecord("not a SampleRecord");
  }
  if (record.version() < 1 || record.version() > kSampleVersion) {
    BadSampleRecord(StrCat("it is of version ", record.version(), ", this program reads 1..", kSampleVersion));
  }
  if (record.picture().empty()) BadSampleRecord("it has no picture");
  if (record.height() > 0) {
    const uint64_t pixels = uint64_t{record.height()} * record.width();
    if ((record.channels() != 1 && record.channels() != 3) || pixels > INT32_MAX ||
        pixels * record.channels() != record.picture().size()) {
      BadSampleRecord(StrCat("a picture of ", record.channels(), "x", record.height(), "x", record.width(), " with ",
                             record.picture().size(), " bytes"));
    }
  }
  CheckSampleRecordCount("labels", record.label_size(), schema.label_size());
  CheckSampleRecordCount("targets", record.target_size(), schema.target_size());
  CheckSampleRecordCount("points", record.point_size(), schema.point_size());
  CheckSampleRecordCount("texts", record.text_size(), schema.text_size());
  if (!schema.boxes()) CheckSampleRecordCount("boxes", record.box_size(), 0);
  if (record.mask().empty() == schema.mask()) {
    BadSampleRecord(schema.mask() ? "it has no mask, by the database's schema it must"
                                  : "it has a mask, by the schema none");
  }
  for (int i = 0; i < record.label_size(); ++i) {
    if (!IsExactFloat(record.label(i))) BadSampleRecord(StrCat("label ", i, " is ", record.label(i), kNoFloat));
    const int classes = schema.label(i).class_name_size();
    if (record.label(i) >= 0 && (classes == 0 || record.label(i) < classes)) continue;
    BadSampleRecord(StrCat("label ", i, " is ", record.label(i), ", expected 0",
                           classes > 0 ? StrCat("..", classes - 1) : "", classes > 0 ? "" : " or more"));
  }
  for (const float target : record.target()) {
    if (!std::isfinite(target)) BadSampleRecord("a target is not a finite number");
  }
  for (const SamplePoint& point : record.point()) {
    if (!IsFinite(point)) BadSampleRecord("a point is not of finite numbers");
  }
  for (int i = 0; i < record.box_size(); ++i) CheckBox(record.box(i), i, schema);
}

std::vector<int> MirroredPoints(const google::protobuf::RepeatedPtrField<std::string>& names) {
  constexpr std::string_view kLeft = "left_";
  constexpr std::string_view kRight = "right_";
  std::vector<int> places(static_cast<size_t>(names.size()));
  for (int i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    std::string other = name;
    if (name.starts_with(kLeft)) other = StrCat(kRight, name.substr(kLeft.size()));
    if (name.starts_with(kRight)) other = StrCat(kLeft, name.substr(kRight.size()));
    const auto found = std::ranges::find(names, other);
    places[static_cast<size_t>(i)] = found == names.end() ? i : static_cast<int>(found - names.begin());
  }
  return places;
}

Record PictureOf(const SampleRecord& record) {
  if (record.height() == 0) return {.file = record.picture()};
  return {.pixels = {.order = PixelView::Order::kPlanar,
                     .channels = record.channels(),
                     .height = record.height(),
                     .width = record.width(),
                     .bytes = reinterpret_cast<const uint8_t*>(record.picture().data())}};
}

void DecodeMask(const SampleRecord& record, const ImageSize& picture, ImageDecoder& decoder, Image& mask) {
  // Its samples are classes of the upright picture's pixels, whatever a tag says.
  decoder.Decode(record.mask(), {.orientation = DecodeOptions::Orientation::kAsStored}, mask);
  if (mask.channels != 1) BadSampleRecord("its mask is no picture of one channel");
  if (mask.height == picture.height && mask.width == picture.width) return;
  BadSampleRecord(
      StrCat("its mask is ", mask.height, "x", mask.width, ", its picture ", picture.height, "x", picture.width));
}

void CheckMaskClasses(const std::bitset<256>& values, int classes) {
  constexpr int kIgnored = 255;
  for (int value = classes; value < kIgnored; ++value) {
    if (!values.test(static_cast<size_t>(value))) continue;
    BadSampleRecord(StrCat("the mask has class ", value, ", expected 0..", classes - 1, " by the ", classes,
                           " names, or 255 for pixels that have none"));
  }
}

void DrawInstances(const SampleRecord& record, int64_t height, int64_t width, InstancePictures& instances) {
  constexpr int kMost = (1 << 16) - 1;
  if (record.box_size() > kMost)
    BadSampleRecord(StrCat("it has ", record.box_size(), " boxes, at most ", kMost, " can have masks"));
  for (Image* image : {&instances.low, &instances.high}) {
    image->Resize(width, height, 1);
    std::ranges::fill(image->pixels, uint8_t{0});
  }
  int64_t painted = 0;
  std::vector<InstanceLayer> layers;
  for (int i = 0; i < record.box_size(); ++i) {
    if (record.box(i).run().empty()) continue;
    layers.push_back({InstanceKind(record.box(i)), InstanceArea(record, i, height, width), i});
    painted += layers.back().area;
    // A few bytes say as much as a whole picture.
    constexpr int64_t kMostLayers = 256;
    if (painted > kMostLayers * height * width)
      BadSampleRecord(StrCat("its masks lie over each other more than ", kMostLayers, " deep"));
  }
  std::ranges::sort(layers, [](const InstanceLayer& a, const InstanceLayer& b) {
    return std::tuple(a.kind, b.area, a.box) < std::tuple(b.kind, a.area, b.box);
  });
  for (const InstanceLayer& layer : layers) PaintInstance(record, layer.box, height, width, instances);
}

}  // namespace moka
