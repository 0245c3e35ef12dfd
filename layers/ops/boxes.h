// Boxes of detectors and the suppression of those that overlap. Two conventions exist: pixel boxes (Girshick's
// detectors) hold their last pixel, so a side is x2 - x1 + 1; unit boxes (SSD) end at x2. `side` says which: 1 or 0.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace moka {

template <class T>
using Box = std::array<T, 4>;  // x1, y1, x2, y2

inline constexpr int kPixelSide = 1;
inline constexpr int kUnitSide = 0;

template <class T>
T Area(const Box<T>& box, int side) {
  return std::max<T>(0, box[2] - box[0] + static_cast<T>(side)) *
         std::max<T>(0, box[3] - box[1] + static_cast<T>(side));
}

// Intersection over union; 0 where they share no area.
template <class T>
T Overlap(const Box<T>& a, const Box<T>& b, int side) {
  const Box<T> shared = {std::max(a[0], b[0]), std::max(a[1], b[1]), std::min(a[2], b[2]), std::min(a[3], b[3])};
  const T both = Area(shared, side);
  if (!(both > 0)) return 0;  // most pairs
  const T either = Area(a, side) + Area(b, side) - both;
  return both / either;
}

// Greedy non-maximum suppression: of `candidates` (best first) those that no kept one before them suppresses, at most
// `most` (negative: all). suppresses(kept, other) compares two candidates.
template <class Suppresses>
std::vector<int64_t> GreedyNms(std::span<const int64_t> candidates, int64_t most, Suppresses&& suppresses) {
  std::vector<int64_t> kept;
  for (const int64_t candidate : candidates) {
    if (most >= 0 && static_cast<int64_t>(kept.size()) >= most) break;
    const bool is_free = std::ranges::none_of(kept, [&](int64_t better) { return suppresses(better, candidate); });
    if (is_free) kept.push_back(candidate);
  }
  return kept;
}

// The indices of scores in falling order, at most `most` (negative: all); of equal scores the earlier first, NaNs last.
template <class T>
std::vector<int64_t> FallingOrder(std::span<const T> scores, int64_t most) {
  std::vector<int64_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  const auto before = [&](int64_t a, int64_t b) {
    const T x = scores[static_cast<size_t>(a)];
    const T y = scores[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    return x == y ? a < b : x > y;
  };
  const size_t count = most < 0 ? order.size() : std::min(order.size(), static_cast<size_t>(most));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), before);
  order.resize(count);
  return order;
}

// The regression of a pixel box (Girshick et al. 2014): centre moved by d * side, side scaled by exp(d). The result
// ends at centre + side / 2, without the - 1 (as in py-faster-rcnn).
template <class T>
Box<T> MovedBox(const Box<T>& box, const std::array<T, 4>& delta) {
  const T w = box[2] - box[0] + 1;
  const T h = box[3] - box[1] + 1;
  const T x = box[0] + w / 2 + delta[0] * w;
  const T y = box[1] + h / 2 + delta[1] * h;
  const T half_w = std::exp(delta[2]) * w / 2;
  const T half_h = std::exp(delta[3]) * h / 2;
  return {x - half_w, y - half_h, x + half_w, y + half_h};
}

// The regression that moves `from` to the pixel box `to`; sides count as at least a pixel.
template <class T>
std::array<T, 4> MoveBetween(const Box<T>& from, const Box<T>& to) {
  const auto side = [](const Box<T>& box, size_t axis) { return std::max<T>(box[axis + 2] - box[axis] + 1, 1); };
  std::array<T, 4> move{};
  for (size_t axis = 0; axis < 2; ++axis) {
    const T own = side(from, axis);
    const T other = side(to, axis);
    move[axis] = (to[axis] + other / 2 - from[axis] - own / 2) / own;
    move[axis + 2] = std::log(other / own);
  }
  return move;
}

// A pixel box cut to an image.
template <class T>
Box<T> ClippedBox(const Box<T>& box, T height, T width) {
  const auto clip = [](T value, T last) { return std::max<T>(std::min(value, last), 0); };
  return {clip(box[0], width - 1), clip(box[1], height - 1), clip(box[2], width - 1), clip(box[3], height - 1)};
}

}  // namespace moka
