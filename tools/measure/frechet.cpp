// Sums in double over points; the matrix square root is by symmetric eigenvalues, in which rounding cannot make the
// distance complex.
#include "tools/measure/frechet.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>

#include "core/error.h"

namespace moka {
namespace {

// The eigenvalues and vectors of a symmetric matrix; rounding below zero is taken for zero.
struct EigenPairs {
  cv::Mat roots;    // [D,1] square roots of the values
  cv::Mat vectors;  // [D,D], one a row
};

EigenPairs RootsOf(const cv::Mat& symmetric) {
  EigenPairs pairs;
  cv::eigen(symmetric, pairs.roots, pairs.vectors);
  for (int i = 0; i < pairs.roots.rows; ++i) {
    pairs.roots.at<double>(i) = std::sqrt(std::max(pairs.roots.at<double>(i), 0.0));
  }
  return pairs;
}

cv::Mat MatrixOf(std::vector<double>& values, int64_t dimensions) {
  const int side = static_cast<int>(dimensions);
  return {side, side, CV_64F, values.data()};
}

}  // namespace

PointSums::PointSums(int64_t dimensions)
    : dimensions_(dimensions),
      sums_(static_cast<size_t>(dimensions)),
      squares_(static_cast<size_t>(dimensions * dimensions)) {}

void PointSums::Add(std::span<const float> point) {
  Require(static_cast<int64_t>(point.size()) == dimensions_, "PointSums: a value for each dimension");
  if (count_ == 0) origin_.assign(point.begin(), point.end());
  ++count_;
  const size_t n = point.size();
  for (size_t i = 0; i < n; ++i) {
    const double own = double{point[i]} - origin_[i];
    sums_[i] += own;
    double* row = squares_.data() + i * n;
    for (size_t k = i; k < n; ++k) row[k] += own * (double{point[k]} - origin_[k]);
  }
}

std::vector<double> PointSums::Mean() const {
  std::vector<double> mean = origin_;
  for (size_t i = 0; i < mean.size(); ++i) mean[i] += sums_[i] / static_cast<double>(count_);
  return mean;
}

std::vector<double> PointSums::Covariance() const {
  Require(count_ > 1, "PointSums: a covariance is of two points at least");
  const auto n = static_cast<size_t>(dimensions_);
  const auto count = static_cast<double>(count_);
  std::vector<double> covariance(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = i; k < n; ++k) {
      const double value = (squares_[i * n + k] - sums_[i] * sums_[k] / count) / (count - 1);
      covariance[i * n + k] = covariance[k * n + i] = value;
    }
  }
  return covariance;
}

double FrechetDistance(const PointSums& a, const PointSums& b) {
  Require(a.dimensions() == b.dimensions(), "FrechetDistance: points of one space");
  const std::vector<double> mean_a = a.Mean();
  const std::vector<double> mean_b = b.Mean();
  std::vector<double> values_a = a.Covariance();
  std::vector<double> values_b = b.Covariance();
  const cv::Mat cov_a = MatrixOf(values_a, a.dimensions());
  const cv::Mat cov_b = MatrixOf(values_b, b.dimensions());
  double distance = 0;
  for (size_t i = 0; i < mean_a.size(); ++i) distance += (mean_a[i] - mean_b[i]) * (mean_a[i] - mean_b[i]);
  // C1 C2 has the eigenvalues of S C2 S with S the root of C1, which is symmetric.
  const EigenPairs of_a = RootsOf(cov_a);
  const cv::Mat root = of_a.vectors.t() * cv::Mat::diag(of_a.roots) * of_a.vectors;
  cv::Mat product = root * cov_b * root;
  product = (product + product.t()) * 0.5;
  const double roots = cv::sum(RootsOf(product).roots)[0];
  return std::max(distance + cv::trace(cov_a)[0] + cv::trace(cov_b)[0] - 2 * roots, 0.0);
}

}  // namespace moka
