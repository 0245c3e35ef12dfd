// The side of a line is the sign of a cross product. Between two pictures an object moves straight.
#include "tools/track/place_counts.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr size_t kMostPlaces = 100;
constexpr size_t kMostCorners = 1000;

// Numbers "X,Y,X,Y.." as points.
std::vector<PlacePoint> PointsOf(std::string_view text, const char* flag, std::string_view expected) {
  const auto fail = [&] {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--", flag, ": \"", Printable(text.substr(0, 100)), "\" are no pixels ", expected),
                "as in --line 0,240,640,240 --zone 10,10,200,10,200,200");
  };
  std::vector<double> numbers;
  for (const std::string& word : Split(std::string(text), ',')) {
    constexpr double kMost = 1e6;
    double value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (word.empty() || read.ec != std::errc() || read.ptr != word.data() + word.size() ||
        !(std::abs(value) <= kMost)) {
      fail();
    }
    numbers.push_back(value);
  }
  if (numbers.size() % 2 != 0 || numbers.size() / 2 > kMostCorners) fail();
  std::vector<PlacePoint> points;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) points.push_back({numbers[i], numbers[i + 1]});
  return points;
}

// Above 0: `at` is to the right of the way from a to b, with y going down.
double SideOf(const PlacePoint& a, const PlacePoint& b, const PlacePoint& at) {
  return (b.x - a.x) * (at.y - a.y) - (b.y - a.y) * (at.x - a.x);
}

int SignOf(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

bool IsBetween(const PlacePoint& at, const PlacePoint& a, const PlacePoint& b) {
  return std::min(a.x, b.x) <= at.x && at.x <= std::max(a.x, b.x) && std::min(a.y, b.y) <= at.y &&
         at.y <= std::max(a.y, b.y);
}

// Whether two stretches have a point in common.
bool Meet(const PlacePoint& a, const PlacePoint& b, const PlacePoint& c, const PlacePoint& d) {
  const int c_side = SignOf(SideOf(a, b, c));
  const int d_side = SignOf(SideOf(a, b, d));
  const int a_side = SignOf(SideOf(c, d, a));
  const int b_side = SignOf(SideOf(c, d, b));
  if (c_side * d_side < 0 && a_side * b_side < 0) return true;
  return (c_side == 0 && IsBetween(c, a, b)) || (d_side == 0 && IsBetween(d, a, b)) ||
         (a_side == 0 && IsBetween(a, c, d)) || (b_side == 0 && IsBetween(b, c, d));
}

bool AreOnOneLine(const std::vector<PlacePoint>& points) {
  for (const PlacePoint& second : points) {
    for (const PlacePoint& third : points) {
      if (SideOf(points[0], second, third) != 0) return false;
    }
  }
  return true;
}

std::vector<std::string> PlacesOf(std::string_view text, const char* flag) {
  std::vector<std::string> places = Split(std::string(text), ':');
  if (places.size() > kMostPlaces) {
    throw Error(ErrorKind::kUsage, StrCat("--", flag, " has ", places.size(), " places, at most ", kMostPlaces));
  }
  return places;
}

}  // namespace

std::vector<CountLine> LinesOfText(std::string_view text) {
  std::vector<CountLine> lines;
  for (const std::string& place : PlacesOf(text, "line")) {
    constexpr std::string_view kExpected = "X1,Y1,X2,Y2";
    const std::vector<PlacePoint> ends = PointsOf(place, "line", kExpected);
    if (ends.size() != 2 || (ends[0].x == ends[1].x && ends[0].y == ends[1].y)) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--line: \"", Printable(place.substr(0, 100)), "\" is no line from one point to another"),
                  StrCat("expected ", kExpected, " in pixels; several lines are given by several --line"));
    }
    lines.push_back({ends[0], ends[1]});
  }
  return lines;
}

std::vector<CountZone> ZonesOfText(std::string_view text) {
  std::vector<CountZone> zones;
  for (const std::string& place : PlacesOf(text, "zone")) {
    constexpr std::string_view kExpected = "X1,Y1,X2,Y2,X3,Y3,..";
    const std::vector<PlacePoint> corners = PointsOf(place, "zone", kExpected);
    if (AreOnOneLine(corners)) {
      throw Error(ErrorKind::kUsage, {}, StrCat("--zone: \"", Printable(place.substr(0, 100)), "\" surrounds nothing"),
                  StrCat("expected three corners or more, ", kExpected,
                         " in pixels; several zones are given by several --zone"));
    }
    zones.push_back({corners});
  }
  return zones;
}

std::string TextOf(std::span<const PlacePoint> points) {
  std::string text;
  for (const PlacePoint& point : points) text += StrCat(text.empty() ? "" : ",", point.x, ",", point.y);
  return text;
}

bool TouchesPicture(std::span<const PlacePoint> points, int64_t width, int64_t height) {
  const auto [left, right] = std::ranges::minmax(points, {}, &PlacePoint::x);
  const auto [top, bottom] = std::ranges::minmax(points, {}, &PlacePoint::y);
  return left.x < static_cast<double>(width) && right.x > 0 && top.y < static_cast<double>(height) && bottom.y > 0;
}

// M. Shimrat, Algorithm 112: Position of Point Relative to Polygon, 1962: sides that a ray to the right crosses.
bool IsInside(const CountZone& zone, const PlacePoint& point) {
  bool is_inside = false;
  const std::vector<PlacePoint>& corners = zone.corners;
  for (size_t i = 0; i < corners.size(); ++i) {
    const PlacePoint& a = corners[i];
    const PlacePoint& b = corners[(i + 1) % corners.size()];
    if ((a.y > point.y) == (b.y > point.y)) continue;
    if (point.x < a.x + (point.y - a.y) * (b.x - a.x) / (b.y - a.y)) is_inside = !is_inside;
  }
  return is_inside;
}

int64_t LineCount::to_right() const { return std::ranges::count(crossings, true, &LineCrossing::is_to_right); }
int64_t LineCount::to_left() const { return std::ranges::count(crossings, false, &LineCrossing::is_to_right); }

PlaceCounter::PlaceCounter(const std::vector<CountLine>& lines, const std::vector<CountZone>& zones) {
  for (const CountLine& line : lines) lines_.push_back({line});
  for (const CountZone& zone : zones) zones_.push_back({zone});
  ways_.resize(lines.size());
  insides_.resize(zones.size());
}

void PlaceCounter::Cross(int64_t frame, const TrackedBox& box, const PlacePoint& at, LineCount& line,
                         std::map<int64_t, Way>& ways) {
  const int side = SignOf(SideOf(line.line.from, line.line.to, at));
  const auto [found, is_new] = ways.try_emplace(box.id, Way{.last = at, .side = side});
  if (is_new) return;
  Way& way = found->second;
  way.has_met = way.has_met || Meet(line.line.from, line.line.to, way.last, at);
  way.last = at;
  if (side == 0) return;  // on which side it goes on, a later picture tells
  if (way.has_met && way.side == -side) line.crossings.push_back({box.id, box.label, frame, side > 0});
  way.side = side;
  way.has_met = false;
}

void PlaceCounter::Add(int64_t frame, std::span<const TrackedBox> boxes) {
  for (ZoneCount& zone : zones_) zone.inside = 0;
  for (const TrackedBox& box : boxes) {
    const PlacePoint at{(box.box.xmin + box.box.xmax) / 2, (box.box.ymin + box.box.ymax) / 2};
    for (size_t i = 0; i < lines_.size(); ++i) Cross(frame, box, at, lines_[i], ways_[i]);
    for (size_t i = 0; i < zones_.size(); ++i) {
      ZoneCount& zone = zones_[i];
      const bool is_inside = IsInside(zone.zone, at);
      const auto [was, is_new] = insides_[i].try_emplace(box.id, is_inside);
      if (!is_new && is_inside && !was->second) ++zone.entered;
      if (!is_new && !is_inside && was->second) ++zone.left;
      was->second = is_inside;
      if (!is_inside) continue;
      zone.tracks.emplace(box.id, box.label);
      ++zone.inside;
      ++zone.boxes;
    }
  }
  for (ZoneCount& zone : zones_) {
    if (zone.inside <= zone.most_inside) continue;
    zone.most_inside = zone.inside;
    zone.most_frame = frame;
  }
}

}  // namespace moka
