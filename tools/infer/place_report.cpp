// Counts by class are added up here from the crossings and tracks, which know their classes.
#include "tools/infer/place_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "tools/cli/print.h"

namespace moka {
namespace {

constexpr Color kPlaceColor = {.blue = 40, .green = 220, .red = 255};
constexpr Color kBlack = {.blue = 0, .green = 0, .red = 0};

std::array<PlacePoint, 2> EndsOf(const CountLine& line) { return {line.from, line.to}; }

PictureJson NumbersOf(std::span<const PlacePoint> points) {
  PictureJson json = PictureJson::array();
  for (const PlacePoint& point : points) {
    json.push_back(point.x);
    json.push_back(point.y);
  }
  return json;
}

PictureJson JsonOf(const LineCount& count, const InferSource& source, std::span<const double> times_s) {
  PictureJson json = {{"line", NumbersOf(EndsOf(count.line))},
                      {"to_right", count.to_right()},
                      {"to_left", count.to_left()},
                      {"by_class", PictureJson::object()},
                      {"crossings", PictureJson::array()}};
  for (const LineCrossing& crossing : count.crossings) {
    const char* const side = crossing.is_to_right ? "to_right" : "to_left";
    PictureJson& of_class = json["by_class"][NameOf(source, crossing.label)];
    if (of_class.is_null()) of_class = {{"to_right", 0}, {"to_left", 0}};
    of_class[side] = of_class[side].get<int64_t>() + 1;
    json["crossings"].push_back({{"track", crossing.track},
                                 {"frame", crossing.frame + 1},
                                 {"time_s", times_s[static_cast<size_t>(crossing.frame)]},
                                 {"side", side}});
  }
  return json;
}

PictureJson JsonOf(const ZoneCount& count, const InferSource& source, int64_t frames) {
  PictureJson json = {{"zone", NumbersOf(count.zone.corners)},
                      {"tracks", count.tracks.size()},
                      {"entered", count.entered},
                      {"left", count.left},
                      {"most_inside", count.most_inside}};
  json["most_frame"] = count.most_inside > 0 ? PictureJson(count.most_frame + 1) : PictureJson();
  json["mean_inside"] = static_cast<double>(count.boxes) / static_cast<double>(std::max<int64_t>(1, frames));
  json["by_class"] = PictureJson::object();
  for (const auto& [track, label] : count.tracks) {
    PictureJson& of_class = json["by_class"][NameOf(source, label)];
    of_class = of_class.is_null() ? 1 : of_class.get<int64_t>() + 1;
  }
  return json;
}

void RefuseOutside(const char* flag, std::span<const PlacePoint> points, int64_t width, int64_t height) {
  if (TouchesPicture(points, width, height)) return;
  throw Error(ErrorKind::kUsage, StrCat("--", flag, " ", TextOf(points), " lies outside the pictures, which are ",
                                        width, " x ", height, " pixels"));
}

void DrawSide(const PlacePoint& from, const PlacePoint& to, Image& picture) {
  DrawLine(from.x, from.y, to.x, to.y, kPlaceColor, picture.width >= 400 ? 2 : 1, picture);
}

void DrawCount(const std::string& words, const PlacePoint& at, Image& picture) {
  const WordStyle style{.scale = 0.4, .color = kBlack, .has_ground = true, .ground = kPlaceColor};
  DrawWords(words, std::lround(at.x), std::lround(at.y), style, picture);
}

}  // namespace

void CheckPlaces(const PlaceCounter& counter, int64_t width, int64_t height) {
  for (const LineCount& count : counter.lines()) RefuseOutside("line", EndsOf(count.line), width, height);
  for (const ZoneCount& count : counter.zones()) RefuseOutside("zone", count.zone.corners, width, height);
}

void AddPlaces(const PlaceCounter& counter, const InferSource& source, std::span<const double> times_s,
               PictureJson& json) {
  for (const LineCount& count : counter.lines()) json["lines"].push_back(JsonOf(count, source, times_s));
  for (const ZoneCount& count : counter.zones()) json["zones"].push_back(JsonOf(count, source, std::ssize(times_s)));
}

void PrintPlaces(const PlaceCounter& counter) {
  for (const LineCount& count : counter.lines()) {
    Print("  line {}: {} to the right, {} to the left\n", TextOf(EndsOf(count.line)), count.to_right(),
          count.to_left());
  }
  for (const ZoneCount& count : counter.zones()) {
    Print("  zone {}: {}, {} entered, {} left, at most {} at once\n", TextOf(count.zone.corners),
          Counted(std::ssize(count.tracks), "track", "tracks"), count.entered, count.left, count.most_inside);
  }
}

void DrawPlaces(const PlaceCounter& counter, Image& picture) {
  for (const LineCount& count : counter.lines()) {
    DrawSide(count.line.from, count.line.to, picture);
    DrawCount(StrCat("right ", count.to_right(), " left ", count.to_left()), count.line.from, picture);
  }
  for (const ZoneCount& count : counter.zones()) {
    const std::vector<PlacePoint>& corners = count.zone.corners;
    for (size_t i = 0; i < corners.size(); ++i) DrawSide(corners[i], corners[(i + 1) % corners.size()], picture);
    DrawCount(StrCat("inside ", count.inside, " of ", count.tracks.size()), corners[0], picture);
  }
}

}  // namespace moka
