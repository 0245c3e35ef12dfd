// Second moments of patches are summed in double and their eigenvectors found by OpenCV, which takes a symmetric
// matrix.
#include "data/inspect/whitening.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "data/inspect/channel_sums.h"
#include "data/records/record_database.h"

namespace moka {
namespace {

// Values of a patch, whose covariance has the square of that; its eigenvectors take a second.
constexpr int64_t kMostValues = 400;
// Products of two values of a patch that are summed: some ten seconds. Where there are more, patches lie in even steps.
constexpr int64_t kMostProducts = int64_t{20'000'000'000};

double ValueAt(const PixelView& pixels, int64_t c, int64_t y, int64_t x) {
  const int64_t place = y * pixels.width + x;
  const bool is_planar = pixels.order == PixelView::Order::kPlanar;
  const int64_t at = is_planar ? c * pixels.height * pixels.width + place : place * pixels.channels + c;
  return pixels.bytes != nullptr ? static_cast<double>(pixels.bytes[at]) : static_cast<double>(pixels.floats[at]);
}

// Calls visit(pixels) for the chosen records.
template <class Visit>
void VisitRecords(const RecordDatabase& database, int64_t records, Visit&& visit) {
  RecordDatabase::Scratch scratch;
  for (int64_t i = 0; i < records; ++i) {
    const int64_t at = i * database.size() / records;
    try {
      visit(database.Load(at, scratch).pixels);
    } catch (const Error& e) {
      throw Error(e.kind(), {}, StrCat(database.NameOf(at), ": ", e.text()), e.hint());
    }
  }
}

// The covariance of patches [C,k,k] of pixels less the mean over the deviation.
class PatchMoments {
 public:
  explicit PatchMoments(const Whitening& whitening)
      : whitening_(whitening),
        size_(static_cast<size_t>(whitening.channels * whitening.kernel * whitening.kernel)),
        sums_(size_),
        products_(size_ * size_),
        patch_(size_),
        most_patches_(std::max<int64_t>(1, kMostProducts / static_cast<int64_t>(size_ * size_) / whitening.records)) {}

  void Add(const PixelView& pixels) {
    const int64_t down = pixels.height - whitening_.kernel + 1;
    const int64_t across = pixels.width - whitening_.kernel + 1;
    if (down < 1 || across < 1) {
      throw Error(ErrorKind::kBadData, StrCat("is smaller than the kernel: ", pixels.height, "x", pixels.width));
    }
    const auto step = static_cast<int64_t>(std::ceil(
        std::sqrt(static_cast<double>(down) * static_cast<double>(across) / static_cast<double>(most_patches_))));
    for (int64_t y = 0; y < down; y += step) {
      for (int64_t x = 0; x < across; x += step) AddPatch(pixels, y, x);
    }
  }

  cv::Mat_<double> Covariance() const {
    const int size = static_cast<int>(size_);
    cv::Mat_<double> covariance(size, size);
    for (size_t i = 0; i < size_; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        const double value = products_[i * size_ + j] / count_ - sums_[i] / count_ * (sums_[j] / count_);
        covariance(static_cast<int>(i), static_cast<int>(j)) = covariance(static_cast<int>(j), static_cast<int>(i)) =
            value;
      }
    }
    return covariance;
  }

 private:
  void AddPatch(const PixelView& pixels, int64_t y, int64_t x) {
    size_t at = 0;
    for (int64_t c = 0; c < pixels.channels; ++c) {
      const auto channel = static_cast<size_t>(c);
      for (int64_t dy = 0; dy < whitening_.kernel; ++dy) {
        for (int64_t dx = 0; dx < whitening_.kernel; ++dx) {
          const double value = ValueAt(pixels, c, y + dy, x + dx);
          patch_[at++] = (value - whitening_.mean[channel]) / whitening_.deviation[channel];
        }
      }
    }
    for (size_t i = 0; i < size_; ++i) {
      sums_[i] += patch_[i];
      for (size_t j = 0; j <= i; ++j) products_[i * size_ + j] += patch_[i] * patch_[j];
    }
    ++count_;
  }

  const Whitening& whitening_;
  size_t size_;
  std::vector<double> sums_;
  std::vector<double> products_;  // the lower triangle
  std::vector<double> patch_;
  int64_t most_patches_;  // of a record
  double count_ = 0;
};

// Eigenvectors as rows, by falling variance, each with its largest number positive.
void Decompose(const cv::Mat_<double>& covariance, double eps, Whitening& whitening) {
  cv::Mat_<double> variances;
  cv::Mat_<double> vectors;
  cv::eigen(covariance, variances, vectors);
  for (int i = 0; i < vectors.rows; ++i) {
    const double variance = std::max(0.0, variances(i));
    const double* vector = vectors[i];
    const double largest =
        *std::max_element(vector, vector + vectors.cols, [](double a, double b) { return std::abs(a) < std::abs(b); });
    const double factor = std::copysign(1 / std::sqrt(variance + eps), largest);
    whitening.variances.push_back(variance);
    for (int j = 0; j < vectors.cols; ++j) whitening.filters.push_back(factor * vector[j]);
  }
}

std::vector<double> Given(const std::vector<double>& values, std::vector<double> measured, const char* flag) {
  if (values.empty()) return measured;
  if (values.size() != measured.size()) {
    throw Error(ErrorKind::kUsage,
                StrCat(flag, " has ", values.size(), " values, the records ", measured.size(), " channels"));
  }
  return values;
}

}  // namespace

Whitening ComputeWhitening(const std::filesystem::path& path, const WhiteningOptions& options) {
  const RecordDatabase database(path);
  const int64_t records = std::min(database.size(), options.records);
  if (records == 0) throw Error(ErrorKind::kBadData, StrCat(path.string(), ": no records"));
  ChannelSums channels;
  VisitRecords(database, records, [&](const PixelView& pixels) {
    if (pixels.channels > kMostValues) {
      throw Error(ErrorKind::kBadData, StrCat("has ", pixels.channels, " channels, expected at most ", kMostValues));
    }
    if (channels.Add(pixels)) return;
    throw Error(ErrorKind::kBadData,
                StrCat("has ", pixels.channels, " channels, the first record ", channels.channels()));
  });
  Whitening whitening;
  whitening.channels = static_cast<int64_t>(channels.channels());
  whitening.kernel = options.kernel;
  whitening.records = records;
  whitening.mean = Given(options.mean, channels.Mean(), "--mean");
  whitening.deviation = Given(options.deviation, channels.Deviation(), "--std");
  for (size_t c = 0; c < whitening.deviation.size(); ++c) {
    if (whitening.deviation[c] > 0) continue;
    throw Error(ErrorKind::kBadData,
                StrCat(path.string(), ": the deviation of channel ", c, " is ", whitening.deviation[c]));
  }
  const int64_t values = whitening.channels * whitening.kernel * whitening.kernel;
  if (values > kMostValues) {
    throw Error(ErrorKind::kUsage,
                StrCat("patches of ", whitening.channels, " channels and ", whitening.kernel, "x", whitening.kernel,
                       " pixels have ", values, " values, expected at most ", kMostValues));
  }
  PatchMoments patches(whitening);
  VisitRecords(database, records, [&](const PixelView& pixels) { patches.Add(pixels); });
  Decompose(patches.Covariance(), options.eps, whitening);
  return whitening;
}

}  // namespace moka
