// Frechet distance between two sets of points, each seen as a normal distribution (Dowson & Landau, 1982): with the
// features of a net for points the measure of Heusel et al., arXiv 1706.08500,
//
//   d = |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moka {

// Sums of a set of points, in double.
class PointSums {
 public:
  explicit PointSums(int64_t dimensions);

  // Requires: as many values as dimensions.
  void Add(std::span<const float> point);
  int64_t count() const { return count_; }
  int64_t dimensions() const { return dimensions_; }
  std::vector<double> Mean() const;
  // [D,D], divided by count - 1. Requires: count() > 1.
  std::vector<double> Covariance() const;

 private:
  int64_t dimensions_;
  int64_t count_ = 0;
  std::vector<double> origin_;   // the first point: sums of differences from it lose nothing to a far mean
  std::vector<double> sums_;     // [D]
  std::vector<double> squares_;  // [D,D], upper half
};

// Never below 0. Requires: equal dimensions, at least two points each.
double FrechetDistance(const PointSums& a, const PointSums& b);

}  // namespace moka
