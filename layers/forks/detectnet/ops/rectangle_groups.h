// Groups of similar rectangles and the one that stands for each: what OpenCV's groupRectangles gives (Viola and Jones's
// merging of detections, made transitive).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace moka {

struct GroupedRectangle {
  std::array<int64_t, 4> rectangle;  // x, y, width, height
  int64_t count;                     // of the group
};

// Two rectangles are similar if each side of the one lies within eps times half the sum of the smaller width and height
// from the other's; groups are what similarity connects. A group counts if it has more than `threshold` members and its
// mean does not lie inside that of another such group: one of more members and more than 3, or any where it has fewer
// than 3 itself. In order of the groups' first members. A threshold of 0 or less returns every rectangle by itself.
std::vector<GroupedRectangle> GroupedRectangles(const std::vector<std::array<int64_t, 4>>& rectangles,
                                                int64_t threshold, double eps);

// The nearest whole number, halves to even, within 2^30 of 0; a NaN is 0.
int64_t NearestWhole(double value);

}  // namespace moka
