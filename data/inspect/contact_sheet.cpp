// Classes are rows, drawn from the index of labels, and a record that cannot be decoded is a cross.
#include "data/inspect/contact_sheet.h"
#include "data/image/resample.h"

#include <algorithm>
#include <map>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "core/text.h"
#include "core/utf8.h"
#include "data/image/drawing.h"
#include "data/inspect/inspect.h"
#include "data/records/record_database.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int kCell = 96;  // pixels of a picture's square
constexpr int kGap = 4;
constexpr int kLine = 18;  // of text
constexpr int kMostColumns = 16;
constexpr int kNameLetters = 40;

// Records by their class; those of sets without classes all under -1.
using ClassRecords = std::map<int64_t, std::vector<int64_t>>;

ClassRecords RecordsOfClasses(const RecordDatabase& database) {
  ClassRecords classes;
  RecordDatabase::Scratch scratch;
  for (int64_t i = 0; i < database.size(); ++i) {
    try {
      classes[database.ClassOf(i, scratch).value_or(-1)].push_back(i);
    } catch (const Error&) {
      continue;  // `moka data verify` lists them
    }
  }
  return classes;
}

void Put(const Image& image, int x, int y, cv::Mat& sheet) {
  const int64_t side = std::max(image.width, image.height);
  Image scaled;
  if (side <= kCell) {
    const int64_t factor = kCell / side;
    ResizeImage(image, image.width * factor, image.height * factor, Interpolation::kNearest, scaled);
  } else {
    ShrinkImage(image, kCell, scaled);
  }
  ConvertChannels(3, scaled);
  const cv::Mat picture(static_cast<int>(scaled.height), static_cast<int>(scaled.width), CV_8UC3, scaled.pixels.data());
  picture.copyTo(
      sheet(cv::Rect(x + (kCell - picture.cols) / 2, y + (kCell - picture.rows) / 2, picture.cols, picture.rows)));
}

void Cross(int x, int y, cv::Mat& sheet) {
  const cv::Scalar red(60, 60, 200);
  cv::rectangle(sheet, cv::Rect(x, y, kCell, kCell), red);
  cv::line(sheet, {x, y}, {x + kCell - 1, y + kCell - 1}, red);
  cv::line(sheet, {x, y + kCell - 1}, {x + kCell - 1, y}, red);
}

void DrawRecord(const RecordDatabase& database, int64_t i, int x, int y, cv::Mat& sheet) {
  RecordDatabase::Scratch scratch;
  try {
    Put(ImageOf(database.Load(i, scratch).pixels), x, y, sheet);
  } catch (const Error&) {
    Cross(x, y, sheet);
  }
}

// The first letters of a name.
std::string Shortened(std::string_view name) {
  size_t at = 0;
  for (int i = 0; i < kNameLetters && at < name.size(); ++i) at += std::max<size_t>(CharacterAt(name, at).bytes, 1);
  return std::string(name.substr(0, at));
}

const WordStyle kSheetWords{.scale = 0.42, .color = {230, 230, 230}};

int RowsOf(size_t records, const SheetOptions& options, int columns) {
  const auto shown = static_cast<int>(std::min<int64_t>(options.per_class, static_cast<int64_t>(records)));
  return (shown + columns - 1) / columns;
}

}  // namespace

ContactSheet DrawContactSheet(const fs::path& path, const SheetOptions& options) {
  const RecordDatabase database(path);
  ClassRecords classes = RecordsOfClasses(database);
  if (classes.empty()) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no record can be read"));
  const std::vector<std::string>& names = database.label_names();
  ContactSheet made;
  while (static_cast<int64_t>(classes.size()) > options.classes) {
    classes.erase(std::prev(classes.end()));
    ++made.classes_left;
  }
  const int columns = static_cast<int>(std::clamp<int64_t>(options.per_class, 3, kMostColumns));
  int height = kGap;
  for (const auto& [label, records] : classes) {
    height += kLine + RowsOf(records.size(), options, columns) * (kCell + kGap) + kGap;
  }
  made.picture.Resize(kGap + columns * (kCell + kGap), height, 3);
  std::ranges::fill(made.picture.pixels, uint8_t{40});
  cv::Mat sheet(height, static_cast<int>(made.picture.width), CV_8UC3, made.picture.pixels.data());
  int y = kGap;
  for (const auto& [label, records] : classes) {
    const bool named = label >= 0 && label < static_cast<int64_t>(names.size());
    const std::string name = named ? Shortened(names[static_cast<size_t>(label)]) : "";
    const std::string line =
        StrCat(label < 0 ? "records" : StrCat(label, named ? " " : "", name), "  (", records.size(), ")");
    const int64_t top = y + (kLine - SizeOfWords(line, kSheetWords).height) / 2;
    DrawWords(line, kGap, top, kSheetWords, made.picture);
    y += kLine;
    const auto shown = std::min<int64_t>(options.per_class, static_cast<int64_t>(records.size()));
    for (int64_t k = 0; k < shown; ++k) {
      const auto column = static_cast<int>(k % columns);
      const int row = static_cast<int>(k / columns);
      const int64_t record = records[static_cast<size_t>(k * static_cast<int64_t>(records.size()) / shown)];
      DrawRecord(database, record, kGap + column * (kCell + kGap), y + row * (kCell + kGap), sheet);
    }
    made.pictures += shown;
    y += RowsOf(records.size(), options, columns) * (kCell + kGap) + kGap;
  }
  return made;
}

}  // namespace moka
