// Texts are put together line by line, since a tree of all masks of a large set would not fit memory.
#include "data/labels/annotation_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/markup.h"
#include "core/text.h"

namespace moka {
namespace {

// To hundredths: a width is that of rounded corners, so that these come back.
double Hundredths(double pixels) { return std::round(pixels * 100) / 100; }

const std::string& NameIn(const std::vector<std::string>& names, int32_t label) {
  Require(label >= 1 && label < std::ssize(names), "annotations: a name for each label from 1");
  return names[static_cast<size_t>(label)];
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void AppendRuns(const ScoredObject& object, const PictureSize& size, std::string& text) {
  text += fmt::format(R"(,"segmentation":{{"size":[{},{}],"counts":[)", size.height, size.width);
  for (size_t i = 0; i < object.runs.size(); ++i) text += StrCat(i == 0 ? "" : ",", object.runs[i]);
  text += "]}";
}

int64_t AreaOf(const RunLengths& runs) {
  int64_t pixels = 0;
  for (size_t i = 1; i < runs.size(); i += 2) pixels += runs[i];
  return pixels;
}

}  // namespace

std::string VocText(const LabelledPicture& picture, const std::vector<std::string>& names) {
  std::string text = fmt::format(
      "<annotation>\n  <folder>JPEGImages</folder>\n  <filename>{}</filename>\n  <size><width>{}</width><height>{}"
      "</height><depth>{}</depth></size>\n  <segmented>0</segmented>\n",
      MarkupText(picture.file), picture.size.width, picture.size.height, picture.channels);
  for (const ScoredObject& object : picture.objects) {
    text += fmt::format(
        "  <object>\n    <name>{}</name>\n    <pose>Unspecified</pose>\n    <truncated>0</truncated>\n"
        "    <difficult>0</difficult>\n    <bndbox><xmin>{:.2f}</xmin><ymin>{:.2f}</ymin><xmax>{:.2f}</xmax>"
        "<ymax>{:.2f}</ymax></bndbox>\n    <score>{:.6f}</score>\n  </object>\n",
        MarkupText(NameIn(names, object.label)), object.box.xmin, object.box.ymin, object.box.xmax, object.box.ymax,
        object.score);
  }
  return text + "</annotation>\n";
}

std::string YoloText(const LabelledPicture& picture) {
  const auto width = static_cast<double>(picture.size.width);
  const auto height = static_cast<double>(picture.size.height);
  std::string text;
  for (const ScoredObject& object : picture.objects) {
    const PixelBox& box = object.box;
    text +=
        fmt::format("{} {:.6f} {:.6f} {:.6f} {:.6f}\n", object.label - 1, (box.xmin + box.xmax) / 2 / width,
                    (box.ymin + box.ymax) / 2 / height, (box.xmax - box.xmin) / width, (box.ymax - box.ymin) / height);
  }
  return text;
}

void CocoWriter::Add(const LabelledPicture& picture) {
  images_ += fmt::format("{}\n{{\"id\":{},\"file_name\":{},\"width\":{},\"height\":{}}}", pictures_ == 0 ? "" : ",",
                         pictures_ + 1, Quoted(picture.file), picture.size.width, picture.size.height);
  ++pictures_;
  for (const ScoredObject& object : picture.objects) {
    const double x = Hundredths(object.box.xmin);
    const double y = Hundredths(object.box.ymin);
    const double width = Hundredths(object.box.xmax) - x;
    const double height = Hundredths(object.box.ymax) - y;
    const double area = object.runs.empty() ? width * height : static_cast<double>(AreaOf(object.runs));
    annotations_ += fmt::format(
        "{}\n{{\"id\":{},\"image_id\":{},\"category_id\":{},\"bbox\":[{:.2f},{:.2f},{:.2f},{:.2f}],\"area\":{:.2f},"
        "\"iscrowd\":0,\"score\":{:.6f}",
        objects_ == 0 ? "" : ",", objects_ + 1, pictures_, object.label, x, y, width, height, area, object.score);
    if (!object.runs.empty()) AppendRuns(object, picture.size, annotations_);
    annotations_ += "}";
    ++objects_;
  }
}

std::string CocoWriter::Finish(const std::vector<std::string>& names) const {
  std::string categories;
  for (size_t label = 1; label < names.size(); ++label) {
    categories += fmt::format("{}\n{{\"id\":{},\"name\":{}}}", label == 1 ? "" : ",", label, Quoted(names[label]));
  }
  return StrCat("{\"images\":[", images_, "\n],\n\"annotations\":[", annotations_, "\n],\n\"categories\":[", categories,
                "\n]}\n");
}

}  // namespace moka
