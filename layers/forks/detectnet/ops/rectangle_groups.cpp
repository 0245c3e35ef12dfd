// Groups are the classes of a union-find over similar pairs, numbered by their first members, as OpenCV's partition()
// numbers them.
#include "layers/forks/detectnet/ops/rectangle_groups.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace moka {
namespace {

using Rectangle = std::array<int64_t, 4>;

bool AreSimilar(const Rectangle& a, const Rectangle& b, double eps) {
  const double reach = eps * static_cast<double>(std::min(a[2], b[2]) + std::min(a[3], b[3])) * 0.5;
  const auto near = [&](int64_t difference) { return static_cast<double>(std::abs(difference)) <= reach; };
  return near(a[0] - b[0]) && near(a[1] - b[1]) && near(a[0] + a[2] - b[0] - b[2]) && near(a[1] + a[3] - b[1] - b[3]);
}

size_t RootOf(std::vector<size_t>& parents, size_t i) {
  while (parents[i] != i) {
    parents[i] = parents[parents[i]];
    i = parents[i];
  }
  return i;
}

// The group of each rectangle, numbered by first members.
std::vector<size_t> GroupsOf(const std::vector<Rectangle>& rectangles, double eps) {
  std::vector<size_t> parents(rectangles.size());
  for (size_t i = 0; i < parents.size(); ++i) {
    parents[i] = i;
    for (size_t j = 0; j < i; ++j) {
      const size_t mine = RootOf(parents, i);
      const size_t other = RootOf(parents, j);
      if (mine == other || !AreSimilar(rectangles[i], rectangles[j], eps)) continue;
      parents[std::max(mine, other)] = std::min(mine, other);  // so the root is the first member
    }
  }
  std::vector<size_t> groups(rectangles.size());
  size_t count = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t root = RootOf(parents, i);
    groups[i] = root == i ? count++ : groups[root];
  }
  return groups;
}

// Means in float, as OpenCV has them.
std::vector<GroupedRectangle> Means(const std::vector<Rectangle>& rectangles, const std::vector<size_t>& groups) {
  std::vector<GroupedRectangle> means;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == means.size()) means.push_back({.rectangle = {0, 0, 0, 0}, .count = 0});
    GroupedRectangle& mean = means[groups[i]];
    for (size_t k = 0; k < 4; ++k) mean.rectangle[k] += rectangles[i][k];
    ++mean.count;
  }
  for (GroupedRectangle& mean : means) {
    const float share = 1.0F / static_cast<float>(mean.count);
    for (int64_t& number : mean.rectangle) {
      number = NearestWhole(static_cast<double>(static_cast<float>(number) * share));
    }
  }
  return means;
}

bool LiesInside(const Rectangle& a, const Rectangle& b, double eps) {
  const int64_t dx = NearestWhole(static_cast<double>(b[2]) * eps);
  const int64_t dy = NearestWhole(static_cast<double>(b[3]) * eps);
  return a[0] >= b[0] - dx && a[1] >= b[1] - dy && a[0] + a[2] <= b[0] + b[2] + dx && a[1] + a[3] <= b[1] + b[3] + dy;
}

}  // namespace

int64_t NearestWhole(double value) {
  constexpr double kMost = 1 << 30;
  return std::isnan(value) ? 0 : static_cast<int64_t>(std::nearbyint(std::clamp(value, -kMost, kMost)));
}

std::vector<GroupedRectangle> GroupedRectangles(const std::vector<Rectangle>& rectangles, int64_t threshold,
                                                double eps) {
  std::vector<GroupedRectangle> kept;
  if (threshold <= 0) {
    for (const Rectangle& rectangle : rectangles) kept.push_back({rectangle, 1});
    return kept;
  }
  const std::vector<GroupedRectangle> means = Means(rectangles, GroupsOf(rectangles, eps));
  for (size_t i = 0; i < means.size(); ++i) {
    const int64_t count = means[i].count;
    if (count <= threshold) continue;
    bool is_inside = false;
    for (size_t j = 0; j < means.size() && !is_inside; ++j) {
      if (j == i || means[j].count <= threshold) continue;
      is_inside = LiesInside(means[i].rectangle, means[j].rectangle, eps) &&
                  (means[j].count > std::max<int64_t>(3, count) || count < 3);
    }
    if (!is_inside) kept.push_back(means[i]);
  }
  return kept;
}

}  // namespace moka
