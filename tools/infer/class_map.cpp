// Scores of overlapping tiles are cut to their middles and put side by side; a resized picture's scores are
// interpolated before the largest is taken, since classes cannot be.
#include "tools/infer/class_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "tools/infer/uncertainty.h"

namespace moka {
namespace {

// A part of a picture and where the net saw it.
struct MapPart {
  ImageWindow window;  // of the picture, that the part decides
  ImageBox seen;       // of the picture, that the output's planes cover
};

// The index inside a side that a mirrored picture shows at any place.
int64_t MirroredAt(int64_t at, int64_t side) {
  if (side == 1) return 0;
  const int64_t period = 2 * (side - 1);
  const int64_t phase = ((at % period) + period) % period;
  return std::min(phase, period - phase);
}

Image MirroredWindow(const Image& from, const ImageWindow& window) {
  Image to;
  to.Resize(window.width, window.height, from.channels);
  size_t next = 0;
  for (int64_t y = 0; y < window.height; ++y) {
    const int64_t row = MirroredAt(window.y + y, from.height) * from.width;
    for (int64_t x = 0; x < window.width; ++x) {
      const auto at = static_cast<size_t>((row + MirroredAt(window.x + x, from.width)) * from.channels);
      for (int64_t c = 0; c < from.channels; ++c, ++next) to.pixels[next] = from.pixels[at + static_cast<size_t>(c)];
    }
  }
  return to;
}

// Linear interpolation along one side: the two neighbours of a place and the second's part.
struct MapTap {
  int64_t low = 0;
  int64_t high = 0;
  float part = 0;
};

std::vector<MapTap> MapTaps(int64_t first, int64_t count, double seen_begin, double seen_side, int64_t side) {
  std::vector<MapTap> taps;
  for (int64_t i = 0; i < count; ++i) {
    const double center = static_cast<double>(first + i) + 0.5 - seen_begin;
    const double at =
        std::clamp(center / seen_side * static_cast<double>(side) - 0.5, 0.0, static_cast<double>(side - 1));
    const auto low = static_cast<int64_t>(at);
    taps.push_back({low, std::min(low + 1, side - 1), static_cast<float>(at - static_cast<double>(low))});
  }
  return taps;
}

// The score between four places of a plane `side` wide.
float ScoreAt(const float* plane, int64_t side, const MapTap& row, const MapTap& column) {
  const float* upper = plane + row.low * side;
  const float* lower = plane + row.high * side;
  const float above = upper[column.low] + column.part * (upper[column.high] - upper[column.low]);
  const float below = lower[column.low] + column.part * (lower[column.high] - lower[column.low]);
  return above + row.part * (below - above);
}

// Fills the part's window with the class of the largest interpolated score; `scores` is [C,h,w]. With `has_entropy` the
// entropies of its pixels are added to the map's.
void DecidePart(std::span<const float> scores, const Shape& shape, const MapPart& part, bool has_entropy,
                ClassMap& map) {
  std::vector<float> of_pixel(static_cast<size_t>(shape[1]));
  const int64_t classes = shape[1];
  const int64_t plane = shape[2] * shape[3];
  const ImageWindow& window = part.window;
  const std::vector<MapTap> rows = MapTaps(window.y, window.height, part.seen.y, part.seen.height, shape[2]);
  const std::vector<MapTap> columns = MapTaps(window.x, window.width, part.seen.x, part.seen.width, shape[3]);
  for (int64_t y = 0; y < window.height; ++y) {
    const MapTap& row = rows[static_cast<size_t>(y)];
    for (int64_t x = 0; x < window.width; ++x) {
      const MapTap& column = columns[static_cast<size_t>(x)];
      // One class alone is told apart from the rest by its probability.
      float best = classes == 1 ? 0.5F : -HUGE_VALF;
      uint8_t decided = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const float score = ScoreAt(scores.data() + c * plane, shape[3], row, column);
        of_pixel[static_cast<size_t>(c)] = score;
        if (!(score > best)) continue;
        best = score;
        decided = static_cast<uint8_t>(classes == 1 ? 1 : c);
      }
      map.classes[static_cast<size_t>((window.y + y) * map.width + window.x + x)] = decided;
      if (has_entropy) map.entropy += EntropyUncertainty(of_pixel);
    }
  }
}

// Runs the net on the parts put into slots so far.
void DecideBatch(PictureNet& net, const Tensor& scores, bool has_entropy, std::vector<MapPart>& parts, ClassMap& map) {
  net.Run(std::ssize(parts));
  const Shape& shape = scores.shape();
  const auto count = static_cast<size_t>(shape.Count(1, 4));
  for (size_t i = 0; i < parts.size(); ++i) {
    DecidePart(scores.as<const float>().subspan(i * count, count), shape, parts[i], has_entropy, map);
  }
  parts.clear();
}

}  // namespace

void CheckMapOptions(const PictureNet& net, const MapOptions& options) {
  const Shape scores = net.output(options.output).shape();
  constexpr int64_t kMostClasses = 256;
  if (scores.rank() != 4 || scores[0] != net.batch() || scores[1] > kMostClasses) {
    throw Error(ErrorKind::kConfig, StrCat("output \"", options.output, "\" is ", scores.ToString(),
                                           ", not [N,C,H,W] of at most ", kMostClasses, " classes"));
  }
  const Shape& input = net.input_shape();
  const int64_t used = std::min(input[2], input[3]) - 2 * std::max(options.margin, options.overlap.value_or(0));
  if (options.margin < 0 || used < 1) {
    throw Error(ErrorKind::kConfig,
                StrCat("a margin of ", options.margin, " and an overlap of ", options.overlap.value_or(0),
                       " pixels leave nothing of an input of ", input[2], "x", input[3]));
  }
}

namespace {

// The map with the sum of its pixels' entropies.
ClassMap SummedMapOf(PictureNet& net, const Image& picture, const MapOptions& options) {
  ClassMap map{picture.width, picture.height,
               std::vector<uint8_t>(static_cast<size_t>(picture.width * picture.height))};
  const Tensor scores = net.output(options.output);
  std::vector<MapPart> parts;
  if (!options.overlap) {
    const ImageWindow whole{0, 0, picture.width, picture.height};
    const ImageBox& shown = net.shown(0);
    const auto wide = static_cast<double>(picture.width);
    const auto high = static_cast<double>(picture.height);
    parts.push_back({whole, {shown.x * wide, shown.y * high, shown.width * wide, shown.height * high}});
    DecideBatch(net, scores, options.has_entropy, parts, map);
    return map;
  }
  const int64_t height = net.input_shape()[2];
  const int64_t width = net.input_shape()[3];
  const int64_t step_y = height - 2 * *options.overlap;
  const int64_t step_x = width - 2 * *options.overlap;
  for (int64_t y = 0; y < picture.height; y += step_y) {
    for (int64_t x = 0; x < picture.width; x += step_x) {
      const ImageWindow tile{x - *options.overlap, y - *options.overlap, width, height};
      net.PutAsIs(MirroredWindow(picture, tile), static_cast<int64_t>(parts.size()));
      const ImageWindow seen{tile.x + options.margin, tile.y + options.margin, width - 2 * options.margin,
                             height - 2 * options.margin};
      parts.push_back({{x, y, std::min(step_x, picture.width - x), std::min(step_y, picture.height - y)}, BoxOf(seen)});
      if (static_cast<int64_t>(parts.size()) == net.batch()) DecideBatch(net, scores, options.has_entropy, parts, map);
    }
  }
  if (!parts.empty()) DecideBatch(net, scores, options.has_entropy, parts, map);
  return map;
}

}  // namespace

ClassMap MapOf(PictureNet& net, const Image& picture, const MapOptions& options) {
  ClassMap map = SummedMapOf(net, picture, options);
  map.entropy /= static_cast<double>(map.classes.size());
  return map;
}

}  // namespace moka
