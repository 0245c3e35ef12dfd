// Filters that whiten a database's pictures, for the first convolution of a net.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace moka {

struct WhiteningOptions {
  int64_t kernel = 2;               // side of the square patches, in pixels
  double eps = 5e-4;                // added to each variance before its root is taken
  int64_t records = 5000;           // at most, spread evenly over the database
  std::vector<double> mean{};       // a channel, subtracted from pixels; empty: that of the records
  std::vector<double> deviation{};  // a channel, by which pixels are divided; empty: that of the records
};

struct Whitening {
  int64_t channels = 0;
  int64_t kernel = 0;
  int64_t records = 0;            // that were read
  std::vector<double> mean;       // [C]
  std::vector<double> deviation;  // [C]
  std::vector<double> variances;  // of the patches along each eigenvector, falling
  std::vector<double> filters;  // [C k k, C, k, k]: an eigenvector of the patches' covariance over sqrt(variance + eps)
};

// Computes the filters from all patches of the pictures (of large and of many ones those in even steps): after them a
// patch of normalised pixels has uncorrelated values of variance 1, but for eps (the first layer of Jordan, "94% on
// CIFAR-10 in 3.29 seconds", arXiv 2404.00498). The largest number of each eigenvector is positive. Errors: kUsage for
// other counts of channels than the records have and for patches of more than 400 values; kBadData for records of
// differing channels, for those smaller than the kernel and where all pixels of a channel are equal.
Whitening ComputeWhitening(const std::filesystem::path& path, const WhiteningOptions& options);

}  // namespace moka
