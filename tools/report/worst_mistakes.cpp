// A heap of the worst, whose least gives way. Pictures are made small at once: those of a test may be many and large.
#include "tools/report/worst_mistakes.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moka {
namespace {

constexpr int64_t kThumbnail = 128;  // pixels of the longer side at most
constexpr int64_t kDrawn = 64;       // pictures up to this side are kept without loss
constexpr int kQuality = 85;

// Whether `a` is worse than `b`. A loss that is no number is the worst.
bool IsWorse(const ReportMistake& a, const ReportMistake& b) {
  const bool is_nan = std::isnan(a.sample.loss);
  if (is_nan != std::isnan(b.sample.loss)) return is_nan;
  if (!is_nan && a.sample.loss != b.sample.loss) return a.sample.loss > b.sample.loss;
  return a.sample.number < b.sample.number;
}

void SetPicture(const Image& image, ReportMistake& mistake) {
  if (image.width == 0 || image.height == 0) return;
  const int64_t longer = std::max(image.width, image.height);
  mistake.side = std::min(longer, kThumbnail);
  if (longer <= kDrawn) {
    mistake.picture = EncodePng(image);
    mistake.media = "image/png";
    return;
  }
  Image small;
  ShrinkImage(image, kThumbnail, small);
  mistake.picture = EncodeJpeg(small, kQuality);
  mistake.media = "image/jpeg";
}

}  // namespace

void WorstMistakes::Add(const ScoredSample& sample, const std::function<Image()>& picture) {
  if (sample.predicted == sample.label) return;
  ++in_all_;
  ReportMistake mistake{.sample = sample};
  if (heap_.size() >= most_) {
    if (heap_.empty() || !IsWorse(mistake, heap_.front())) return;
    std::ranges::pop_heap(heap_, IsWorse);
    heap_.pop_back();
  }
  SetPicture(picture(), mistake);
  heap_.push_back(std::move(mistake));
  std::ranges::push_heap(heap_, IsWorse);
}

std::vector<ReportMistake> WorstMistakes::Take(int64_t picture_bytes) {
  std::vector<ReportMistake> worst = std::exchange(heap_, {});
  std::ranges::sort(worst, IsWorse);
  for (ReportMistake& mistake : worst) {
    picture_bytes -= std::ssize(mistake.picture);
    if (picture_bytes < 0) mistake.picture.clear();
  }
  return worst;
}

}  // namespace moka
