// Outlines become pixels by COCO's own rule (a polygon's edges in fifths of a pixel, crossings by column), so that
// areas and overlaps are those of its evaluation.
#include "data/labels/run_lengths.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

[[noreturn]] void BadRunLengths(const std::string& text) { throw Error(ErrorKind::kBadData, text); }

struct Point {
  int64_t x = 0;
  int64_t y = 0;
};

// Lines are drawn in fifths of a pixel.
constexpr double kScale = 5;

// The points of the line from a to b in that order, its longer side in steps of one. They are computed from the end
// with the smaller coordinate, so that both directions give the same points.
void AppendLine(Point a, Point b, std::vector<Point>& line) {
  const int64_t dx = std::abs(b.x - a.x);
  const int64_t dy = std::abs(b.y - a.y);
  const bool is_flipped = (dx >= dy && a.x > b.x) || (dx < dy && a.y > b.y);
  if (is_flipped) std::swap(a, b);
  if (dx == 0 && dy == 0) return line.push_back(a);
  const double slope = dx >= dy ? static_cast<double>(b.y - a.y) / static_cast<double>(dx)
                                : static_cast<double>(b.x - a.x) / static_cast<double>(dy);
  const int64_t steps = std::max(dx, dy);
  constexpr double kRound = 0.5;
  for (int64_t i = 0; i <= steps; ++i) {
    const int64_t t = is_flipped ? steps - i : i;
    const auto along = static_cast<double>(t);
    if (dx >= dy) {
      line.push_back({t + a.x, static_cast<int64_t>(static_cast<double>(a.y) + slope * along + kRound)});
    } else {
      line.push_back({static_cast<int64_t>(static_cast<double>(a.x) + slope * along + kRound), t + a.y});
    }
  }
}

// Where an outline crosses the middles of columns, as indices of pixels down the columns: from each on, the pixels are
// inside if the one before was outside, and the other way about. A place that is crossed twice is none.
std::vector<int64_t> CrossingsOf(const std::vector<Point>& outline, int64_t width, int64_t height) {
  constexpr double kHalf = 0.5;
  std::vector<int64_t> all;
  for (size_t i = 1; i < outline.size(); ++i) {
    if (outline[i].x == outline[i - 1].x) continue;
    const int64_t left = outline[i].x < outline[i - 1].x ? outline[i].x : outline[i].x - 1;
    const double x = (static_cast<double>(left) + kHalf) / kScale - kHalf;
    if (std::floor(x) != x || x < 0 || x > static_cast<double>(width - 1)) continue;
    const double y = (static_cast<double>(std::min(outline[i].y, outline[i - 1].y)) + kHalf) / kScale - kHalf;
    const double inside = std::ceil(std::clamp(y, 0.0, static_cast<double>(height)));
    all.push_back(static_cast<int64_t>(x) * height + static_cast<int64_t>(inside));
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> crossings;
  for (const int64_t place : all) {
    if (!crossings.empty() && crossings.back() == place) {
      crossings.pop_back();
    } else {
      crossings.push_back(place);
    }
  }
  return crossings;
}

// Pixels [begin, end) down the columns.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

// Writes runs from intervals that come in order.
class RunWriter {
 public:
  void Add(const Interval& interval) {
    if (interval.begin >= interval.end) return;
    if (!runs_.empty() && interval.begin == end_) {
      runs_.back() += static_cast<uint32_t>(interval.end - interval.begin);
    } else {
      runs_.push_back(static_cast<uint32_t>(interval.begin - end_));
      runs_.push_back(static_cast<uint32_t>(interval.end - interval.begin));
    }
    end_ = interval.end;
  }
  // Returns the runs, closed by one of the pixels that are left.
  RunLengths Finish(int64_t pixels) {
    if (runs_.empty() || end_ < pixels) runs_.push_back(static_cast<uint32_t>(pixels - end_));
    return std::move(runs_);
  }

 private:
  RunLengths runs_;
  int64_t end_ = 0;
};

// Calls visit(Interval) for each run of the object's.
template <class Visit>
void VisitIntervals(std::span<const uint32_t> runs, Visit&& visit) {
  int64_t place = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i % 2 == 1 && runs[i] > 0) visit(Interval{place, place + runs[i]});
    place += runs[i];
  }
}

void CheckSum(std::span<const uint32_t> runs, int64_t width, int64_t height) {
  const int64_t sum = std::accumulate(runs.begin(), runs.end(), int64_t{0});
  if (sum == width * height) return;
  BadRunLengths(
      StrCat("the run lengths of a mask sum to ", sum, ", expected ", height, " x ", width, " = ", width * height));
}

}  // namespace

RunLengths RunLengthsOf(const Image& mask) {
  Require(mask.channels == 1, "RunLengthsOf: a mask of one channel");
  RunWriter writer;
  for (int64_t x = 0; x < mask.width; ++x) {
    for (int64_t y = 0; y < mask.height; ++y) {
      const int64_t place = x * mask.height + y;
      if (mask.pixels[static_cast<size_t>(y * mask.width + x)] != 0) writer.Add({place, place + 1});
    }
  }
  return writer.Finish(mask.width * mask.height);
}

Image MaskOf(std::span<const uint32_t> runs, int64_t width, int64_t height) {
  CheckSum(runs, width, height);
  Image mask;
  mask.Resize(width, height, 1);
  std::fill(mask.pixels.begin(), mask.pixels.end(), uint8_t{0});
  VisitIntervals(runs, [&](const Interval& interval) {
    for (int64_t i = interval.begin; i < interval.end; ++i) {
      mask.pixels[static_cast<size_t>(i % height * width + i / height)] = 1;
    }
  });
  return mask;
}

RunLengths RunLengthsOf(std::span<const double> polygon, int64_t width, int64_t height) {
  constexpr size_t kLeast = 6;
  constexpr double kFar = 1 << 20;  // pixels
  if (polygon.size() < kLeast || polygon.size() % 2 != 0) {
    BadRunLengths(StrCat("a polygon of ", polygon.size(), " numbers, expected x and y of at least three corners"));
  }
  std::vector<Point> corners;
  for (size_t i = 0; i < polygon.size(); i += 2) {
    if (!(std::abs(polygon[i]) < kFar && std::abs(polygon[i + 1]) < kFar)) {
      BadRunLengths(StrCat("a polygon with a corner at ", polygon[i], ", ", polygon[i + 1]));
    }
    constexpr double kRound = 0.5;
    corners.push_back(
        {static_cast<int64_t>(kScale * polygon[i] + kRound), static_cast<int64_t>(kScale * polygon[i + 1] + kRound)});
  }
  corners.push_back(corners.front());
  std::vector<Point> outline;
  constexpr size_t kMostPoints = size_t{1} << 26U;
  for (size_t i = 1; i < corners.size(); ++i) {
    AppendLine(corners[i - 1], corners[i], outline);
    if (outline.size() > kMostPoints)
      BadRunLengths(StrCat("the outline of a polygon is longer than ", kMostPoints / 5, " pixels"));
  }
  std::vector<int64_t> crossings = CrossingsOf(outline, width, height);
  if (crossings.size() % 2 == 1) crossings.push_back(width * height);
  RunWriter writer;
  for (size_t i = 0; i < crossings.size(); i += 2) writer.Add({crossings[i], crossings[i + 1]});
  return writer.Finish(width * height);
}

RunLengths RunLengthsOf(std::string_view text) {
  RunLengths runs;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0;
    bool is_more = true;
    for (int shift = 0; is_more; shift += 5, ++at) {
      const int digit = at < text.size() ? text[at] - '0' : -1;
      constexpr int kMostShift = 30;
      if (digit < 0 || digit > 0x3F || shift > kMostShift) {
        BadRunLengths(StrCat("bad text of run lengths at character ", at, ": \"", Printable(text.substr(0, 64)), "\""));
      }
      value |= static_cast<int64_t>(digit & 0x1F) << shift;
      is_more = (digit & 0x20) != 0;
      if (!is_more && (digit & 0x10) != 0) value -= int64_t{1} << (shift + 5);
    }
    if (runs.size() > 2) value += runs[runs.size() - 2];
    if (value < 0 || value > UINT32_MAX)
      BadRunLengths(StrCat("the text of run lengths has a run of ", value, " pixels"));
    runs.push_back(static_cast<uint32_t>(value));
  }
  return runs;
}

RunLengths Union(const std::vector<RunLengths>& masks, int64_t width, int64_t height) {
  std::vector<Interval> intervals;
  for (const RunLengths& runs : masks) {
    CheckSum(runs, width, height);
    VisitIntervals(runs, [&](const Interval& interval) { intervals.push_back(interval); });
  }
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  RunWriter writer;
  int64_t end = 0;  // what is before is written
  for (const Interval& interval : intervals) {
    writer.Add({std::max(interval.begin, end), interval.end});
    end = std::max(end, interval.end);
  }
  return writer.Finish(width * height);
}

std::map<uint16_t, RunLengths> RunLengthsByValue(std::span<const uint16_t> values, int64_t width, int64_t height) {
  std::map<uint16_t, RunWriter> writers;
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t y = 0; y < height;) {
      const uint16_t value = values[static_cast<size_t>(y * width + x)];
      const int64_t begin = y;
      while (y < height && values[static_cast<size_t>(y * width + x)] == value) ++y;
      if (value != 0) writers[value].Add({x * height + begin, x * height + y});
    }
  }
  std::map<uint16_t, RunLengths> runs;
  for (auto& [value, writer] : writers) runs[value] = writer.Finish(width * height);
  return runs;
}

ImageWindow WindowOf(std::span<const uint32_t> runs, int64_t width, int64_t height) {
  int64_t left = width;
  int64_t top = height;
  int64_t right = 0;
  int64_t bottom = 0;
  VisitIntervals(runs, [&](const Interval& interval) {
    const int64_t last = interval.end - 1;
    left = std::min(left, interval.begin / height);
    right = std::max(right, last / height + 1);
    const bool is_one_column = interval.begin / height == last / height;
    top = std::min(top, is_one_column ? interval.begin % height : 0);
    bottom = std::max(bottom, is_one_column ? last % height + 1 : height);
  });
  return right == 0 ? ImageWindow{} : ImageWindow{left, top, right - left, bottom - top};
}

}  // namespace moka
