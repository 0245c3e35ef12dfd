// Faces found in maps: boxes with landmarks and scores, of which those that a better one overlaps go.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace moka {

constexpr int64_t kFaceMarks = 10;  // numbers of five landmarks

struct FoundFace {
  double score = 0;
  int64_t label = 1;
  double area = 0;
  std::array<double, 4 + kFaceMarks> places{};  // corners, then landmarks, x and y in turn; pixels
};

// Overlaps are those of pixels: the common part is a pixel larger in both directions than the difference of the
// corners, the areas are not.
inline double FaceOverlap(const FoundFace& a, const FoundFace& b) {
  const double w = std::min(a.places[2], b.places[2]) - std::max(a.places[0], b.places[0]) + 1;
  const double h = std::min(a.places[3], b.places[3]) - std::max(a.places[1], b.places[1]) + 1;
  const double shared = std::max(w, 0.0) * std::max(h, 0.0);
  return shared / (a.area + b.area - shared);
}

// From the best on one stays unless it overlaps one that stays by more than nms, at most `keep` (below 1: all).
inline void SuppressFaces(double nms, int64_t keep, std::vector<FoundFace>& found) {
  std::ranges::stable_sort(found, [](const FoundFace& a, const FoundFace& b) { return a.score > b.score; });
  std::vector<FoundFace> kept;
  for (const FoundFace& f : found) {
    const bool stays = std::ranges::all_of(kept, [&](const FoundFace& k) { return FaceOverlap(f, k) <= nms; });
    if (stays) kept.push_back(f);
    if (keep > 0 && static_cast<int64_t>(kept.size()) == keep) break;
  }
  found = std::move(kept);
}

}  // namespace moka
