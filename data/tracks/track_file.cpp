// Whatever the format, keys go into one builder, which orders them and finds two of one frame.
#include "data/tracks/track_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/text.h"
#include "data/files/list_text.h"
#include "data/labels/xml_document.h"
#include "data/records/class_names.h"

namespace moka {
namespace {

class TrackBuilder {
 public:
  explicit TrackBuilder(std::string file) { set_.file = std::move(file); }

  [[noreturn]] void Fail(int line, const std::string& text, const std::string& hint = {}) const {
    throw Error(ErrorKind::kBadData, SourcePlace{.file = set_.file, .line = line}, text, hint);
  }

  // A finite number, whole where it must be.
  double Number(std::string_view text, int line, std::string_view what) const {
    const std::string_view trimmed = Trim(text);
    double value = 0;
    const auto read = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
    if (trimmed.empty() || read.ec != std::errc() || read.ptr != trimmed.data() + trimmed.size() ||
        !std::isfinite(value) || std::abs(value) > 1e15) {
      Fail(line, StrCat(what, " is no number: \"", Printable(trimmed.substr(0, 100)), "\""));
    }
    return value;
  }
  int64_t Whole(double value, int line, std::string_view what, double least, double most) const {
    if (value != std::floor(value) || value < least || value > most) {
      Fail(line, StrCat(what, " is ", value, ", expected a whole number from ", least, " to ", most));
    }
    return static_cast<int64_t>(value);
  }

  void Add(int64_t id, const std::string& label, const TrackKey& key) {
    const PixelBox& box = key.box;
    if (!key.is_outside && !(box.xmax > box.xmin && box.ymax > box.ymin)) {
      Fail(key.line,
           StrCat("track ", id, ": the box ", box.ToText(), " has no area, expected left, top < right, bottom"));
    }
    if (label.empty() || HasControl(label)) Fail(key.line, StrCat("the class \"", Printable(label), "\" is no name"));
    auto [found, is_new] = tracks_.try_emplace(id);
    Built& built = found->second;
    if (is_new) built.label = label;
    if (built.label != label) {
      Fail(key.line, StrCat("track ", id, " is of class \"", Printable(label), "\", and was of \"",
                            Printable(built.label), "\" in line ", built.keys.begin()->second.line));
    }
    const auto [placed, is_first] = built.keys.emplace(key.frame, key);
    if (!is_first) {
      Fail(key.line, StrCat("track ", id, " has two boxes in picture ", key.frame + 1, ": the other is in line ",
                            placed->second.line));
    }
  }

  TrackSet& set() { return set_; }

  TrackSet Finish() {
    std::map<std::string, int32_t> labels;
    for (const auto& [id, built] : tracks_) labels.emplace(built.label, 0);
    set_.labels = {"none"};
    for (auto& [name, label] : labels) {
      label = static_cast<int32_t>(set_.labels.size());
      set_.labels.push_back(name);
    }
    return FinishWith(labels);
  }

  // Classes are numbers, and each up to the last has a name.
  TrackSet FinishNumbered() {
    std::map<std::string, int32_t> labels;
    set_.labels = {"none"};
    int32_t most = 0;
    for (const auto& [id, built] : tracks_) most = std::max<int32_t>(most, std::stoi(built.label));
    for (int32_t label = 1; label <= most; ++label) {
      set_.labels.push_back(std::to_string(label));
      labels.emplace(set_.labels.back(), label);
    }
    return FinishWith(labels);
  }

 private:
  TrackSet FinishWith(const std::map<std::string, int32_t>& labels) {
    for (auto& [id, built] : tracks_) {
      Track track{id, labels.at(built.label), {}};
      for (auto& [frame, key] : built.keys) track.keys.push_back(key);
      set_.tracks.push_back(std::move(track));
    }
    return std::move(set_);
  }

  struct Built {
    std::string label;
    std::map<int64_t, TrackKey> keys;  // by frame
  };
  TrackSet set_;
  std::map<int64_t, Built> tracks_;
};

// ---- CVAT's XML ----

// A child of a child, "" where one of them is missing.
std::string XmlTextBelow(const xmlNode& root, std::initializer_list<const char*> names) {
  const xmlNode* node = &root;
  for (const char* name : names) {
    node = ChildOf(*node, name);
    if (node == nullptr) return {};
  }
  return XmlTextOf(*node);
}

void ReadSize(const xmlNode& root, TrackBuilder& builder) {
  for (const char* owner : {"task", "job"}) {
    const std::string width = XmlTextBelow(root, {"meta", owner, "original_size", "width"});
    const std::string height = XmlTextBelow(root, {"meta", owner, "original_size", "height"});
    if (width.empty() || height.empty()) continue;
    constexpr double kMostSide = 1 << 24;
    builder.set().size = {builder.Whole(builder.Number(width, 0, "the width"), 0, "the width", 1, kMostSide),
                          builder.Whole(builder.Number(height, 0, "the height"), 0, "the height", 1, kMostSide)};
    return;
  }
}

void ReadCvatBox(const xmlNode& node, int64_t id, const std::string& label, TrackBuilder& builder) {
  const auto line = static_cast<int>(xmlGetLineNo(&node));
  const auto number = [&](const char* name) { return builder.Number(XmlAttributeOf(node, name), line, name); };
  TrackKey key{.line = line};
  key.frame = builder.Whole(number("frame"), line, "frame", 0, kMostTrackFrames);
  key.box = {number("xtl"), number("ytl"), number("xbr"), number("ybr")};
  const std::string outside = XmlAttributeOf(node, "outside");
  if (outside != "0" && outside != "1") {
    builder.Fail(line, StrCat("outside is \"", Printable(outside), "\", expected 0 or 1"));
  }
  key.is_outside = outside == "1";
  builder.Add(id, label, key);
}

TrackSet ReadCvat(const std::string& text, TrackBuilder& builder) {
  constexpr size_t kMostBytes = size_t{16} << 20U;
  if (text.size() > kMostBytes) {
    builder.Fail(0, StrCat("XML of ", text.size(), " bytes, at most ", kMostBytes, " are read"),
                 "export MOT's text instead, which is a tenth of it");
  }
  // An entity may stand for anything, of any size.
  if (text.find("<!DOCTYPE") != std::string::npos)
    builder.Fail(0, "the XML has a document type, which tracks have not");
  int64_t others = 0;
  const XmlDocument document = ParseXmlText(text, "annotations");
  const xmlNode& root = *xmlDocGetRootElement(document.get());
  ReadSize(root, builder);
  for (const xmlNode* node = root.children; node != nullptr; node = node->next) {
    if (node->type != XML_ELEMENT_NODE) continue;
    const auto line = static_cast<int>(xmlGetLineNo(node));
    if (XmlNameOf(*node) == "image") {
      builder.Fail(line, "these are annotations of single pictures, not tracks",
                   "export the job as \"CVAT for video 1.1\"");
    }
    if (XmlNameOf(*node) != "track") continue;
    const int64_t id = builder.Whole(builder.Number(XmlAttributeOf(*node, "id"), line, "id"), line, "id", 0, 1e15);
    const std::string label = XmlAttributeOf(*node, "label");
    for (const xmlNode* shape = node->children; shape != nullptr; shape = shape->next) {
      if (shape->type != XML_ELEMENT_NODE) continue;
      if (XmlNameOf(*shape) == "box") {
        ReadCvatBox(*shape, id, label, builder);
      } else {
        ++others;
      }
    }
  }
  if (others > 0) {
    builder.set().warnings.push_back(StrCat(builder.set().file, ": ", others,
                                            others == 1 ? " shape that is no box is" : " shapes that are no boxes are",
                                            " left out"));
  }
  return builder.Finish();
}

// ---- MOT ----

TrackSet ReadMot(const std::string& text, TrackRole role, TrackBuilder& builder) {
  int64_t uncounted = 0;
  for (const ListTextLine& line : ListTextLines(text)) {
    const std::vector<std::string> cells = Split(line.text, ',');
    if (cells.size() < 6 || cells.size() > 10) {
      builder.Fail(line.number, StrCat("expected \"frame,id,x,y,width,height[,conf[,class[,visibility]]]\", found \"",
                                       Printable(line.text.substr(0, 200)), "\""));
    }
    std::vector<double> v;
    for (size_t i = 0; i < cells.size(); ++i) {
      v.push_back(builder.Number(cells[i], line.number, StrCat("value ", i + 1)));
    }
    TrackKey key{.line = line.number};
    key.frame = builder.Whole(v[0], line.number, "the frame", 1, kMostTrackFrames) - 1;
    const int64_t id = builder.Whole(v[1], line.number, "the id", 0, 1e15);
    key.box = {v[2], v[3], v[2] + v[4], v[3] + v[5]};
    if (v.size() > 6) key.score = v[6];
    constexpr double kMostClasses = 65535;
    const bool has_class = v.size() > 7 && v[7] != -1;
    const int64_t label = has_class ? builder.Whole(v[7], line.number, "the class", 1, kMostClasses) : 1;
    if (role == TrackRole::kTruth && v.size() > 6 && v[6] == 0) {
      ++uncounted;
      continue;
    }
    builder.Add(id, std::to_string(label), key);
  }
  if (uncounted > 0) {
    builder.set().warnings.push_back(StrCat(builder.set().file, ": ", uncounted, uncounted == 1 ? " box" : " boxes",
                                            " of conf 0, which ", uncounted == 1 ? "does" : "do",
                                            " not count, left out"));
  }
  builder.set().is_interpolated = false;
  return builder.FinishNumbered();
}

// ---- Lines of JSON ----

using Json = nlohmann::json;

void ReadJsonLine(const ListTextLine& line, TrackBuilder& builder) {
  CheckJsonBounds(line.text, builder.set().file, {.depth = 4, .values = 100});
  const Json json = Json::parse(line.text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) builder.Fail(line.number, "this is no JSON object");
  for (const auto& [name, value] : json.items()) {
    static const std::vector<std::string> known = {"track", "frame", "label", "box", "outside", "score"};
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string near = DidYouMean(name, known);
    builder.Fail(line.number, StrCat("\"", Printable(name), "\" is no part of a track's box"),
                 near.empty() ? StrCat("expected ", Join(known, ", ")) : near);
  }
  const auto whole = [&](const char* name, int64_t least) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_integer()) {
      builder.Fail(line.number, StrCat("has no whole number \"", name, "\""));
    }
    return builder.Whole(found->get<double>(), line.number, name, static_cast<double>(least), 1e15);
  };
  TrackKey key{.line = line.number};
  const int64_t id = whole("track", 0);
  key.frame = whole("frame", 1) - 1;
  if (key.frame >= kMostTrackFrames)
    builder.Fail(line.number, StrCat("frame is ", key.frame + 1, ", at most ", kMostTrackFrames));
  const auto label = json.find("label");
  if (label == json.end() || !label->is_string()) builder.Fail(line.number, "has no text \"label\"");
  const auto box = json.find("box");
  const bool is_box = box != json.end() && box->is_array() && box->size() == 4 &&
                      std::ranges::all_of(*box, [](const Json& side) { return side.is_number(); });
  if (!is_box) builder.Fail(line.number, "has no \"box\" of four numbers: left, top, right, bottom");
  key.box = {(*box)[0], (*box)[1], (*box)[2], (*box)[3]};
  if (const auto outside = json.find("outside"); outside != json.end()) {
    if (!outside->is_boolean()) builder.Fail(line.number, "\"outside\" is neither true nor false");
    key.is_outside = outside->get<bool>();
  }
  if (const auto score = json.find("score"); score != json.end()) {
    if (!score->is_number()) builder.Fail(line.number, "\"score\" is no number");
    key.score = score->get<double>();
  }
  builder.Add(id, label->get<std::string>(), key);
}

}  // namespace

TrackSet ReadTracks(const std::filesystem::path& file, TrackRole role) {
  constexpr int64_t kMostBytes = int64_t{32} << 20;  // some 700,000 boxes, which take ten times as many
  const std::string text = ListText(ReadLinesFile(file, {.bytes = kMostBytes}), file.string());
  TrackBuilder builder(file.string());
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return builder.Finish();  // a video without objects
  if (text[first] == '{') {
    for (const ListTextLine& line : ListTextLines(text)) ReadJsonLine(line, builder);
    return builder.Finish();
  }
  if (text[first] != '<') return ReadMot(text, role, builder);
  TrackSet set;
  // Errors of the tree name no file; those of the builder do.
  try {
    set = ReadCvat(text, builder);
  } catch (const Error& e) {
    if (!e.place().file.empty()) throw;
    throw Error(e.kind(), {}, StrCat(file.string(), ": ", e.text()), e.hint());
  }
  return set;
}

std::string MotLines(int64_t frame, std::span<const TrackedBox> boxes) {
  std::string text;
  for (const TrackedBox& one : boxes) {
    const PixelBox& box = one.box;
    text += fmt::format("{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.6f},{},-1\n", frame + 1, one.id, box.xmin, box.ymin,
                        box.xmax - box.xmin, box.ymax - box.ymin, one.score, one.label);
  }
  return text;
}

}  // namespace moka
