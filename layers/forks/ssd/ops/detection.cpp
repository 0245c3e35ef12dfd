// Scores are sorted and cut by top_k before suppression, so that a class costs O(k^2) overlaps at most.
#include "layers/forks/ssd/ops/detection.h"

#include <algorithm>

#include "core/size.h"

namespace moka {

int64_t DetectionSettings::RowsAnImage(int64_t priors) const {
  const int64_t objects = background >= 0 && background < classes ? classes - 1 : classes;
  const int64_t a_class = top_k < 0 ? priors : std::min(top_k, priors);
  const int64_t all = (Size(a_class) * objects).value();
  return std::max<int64_t>(1, keep_top_k < 0 ? all : std::min(keep_top_k, all));
}

void Detector::DecodeClass(const DetectionImage& image, std::span<const Box> priors, std::span<const BoxCode> variances,
                           int64_t c) {
  boxes_.resize(priors.size());
  for (size_t p = 0; p < priors.size(); ++p) {
    const auto at = static_cast<int64_t>(p);
    // RefineDet's second stage starts from the boxes of the first.
    const Box prior =
        image.arm_loc.empty() ? priors[p] : Decode(s_.coding, priors[p], variances[p], image.arm_loc.Four(at * 4));
    boxes_[p] = Decode(s_.coding, prior, variances[p],
                       image.loc.Four((at * s_.location_classes() + c) * s_.location_numbers()));
  }
}

void Detector::ReadScores(const DetectionImage& image, int64_t c) {
  for (size_t p = 0; p < scores_.size(); ++p) {
    const auto at = static_cast<int64_t>(p);
    const bool is_nothing = !image.arm_conf.empty() && image.arm_conf[at * 2 + 1] < s_.objectness;
    const double nothing = c == 0 ? 1 : 0;
    scores_[p] = is_nothing ? nothing : image.conf[at * s_.classes + c];
  }
}

void Detector::KeepBest(int64_t limit, std::vector<Detection>& found) {
  const auto count = static_cast<size_t>(limit);
  if (found.size() <= count) return;
  // Stable by hand (std::stable_sort takes memory): labels rise and scores fall along `found`.
  order_.resize(found.size());
  for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<int64_t>(i);
  std::ranges::sort(order_, [&](int64_t a, int64_t b) {
    const double x = found[static_cast<size_t>(a)].score;
    const double y = found[static_cast<size_t>(b)].score;
    return x > y || (x == y && a < b);
  });
  order_.resize(count);
  std::ranges::sort(order_);
  sorted_.clear();
  for (const int64_t i : order_) sorted_.push_back(found[static_cast<size_t>(i)]);
  found = sorted_;
}

void Detector::Detect(const DetectionImage& image, std::span<const Box> priors, std::span<const BoxCode> variances,
                      std::vector<Detection>& found) {
  found.clear();
  scores_.resize(priors.size());
  if (s_.share_location) DecodeClass(image, priors, variances, 0);
  for (int64_t c = 0; c < s_.classes; ++c) {
    if (c == s_.background) continue;
    if (!s_.share_location) DecodeClass(image, priors, variances, c);
    ReadScores(image, c);
    RankScores(scores_, s_.confidence_threshold, s_.top_k, order_);
    SuppressOverlaps(boxes_, order_, s_.nms_threshold, s_.eta, kept_);
    for (const int64_t p : kept_) {
      const auto at = static_cast<size_t>(p);
      found.push_back({c, scores_[at], boxes_[at]});
      if (!s_.polygon) continue;
      const int64_t place = s_.share_location ? p : p * s_.classes + c;
      found.back().polygon = DecodePolygon(priors[at], variances[at], image.loc.EightAt(place * 12 + 4));
    }
  }
  KeepBest(s_.RowsAnImage(static_cast<int64_t>(priors.size())), found);
}

void WriteDetections(std::span<const std::vector<Detection>> images, int64_t rows, int64_t width, const RealsOut& out) {
  int64_t row = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    for (const Detection& d : images[i]) {
      const RealsOut to = out.From(row++ * width);
      to.Set(0, static_cast<double>(i));
      to.Set(1, static_cast<double>(d.label));
      to.Set(2, d.score);
      to.Set(3, d.box.xmin);
      to.Set(4, d.box.ymin);
      to.Set(5, d.box.xmax);
      to.Set(6, d.box.ymax);
      for (int64_t k = 7; k < width; ++k) to.Set(k, d.polygon[static_cast<size_t>(k - 7)]);
    }
  }
  out.Fill(row * width, rows * width, -1);
  if (row > 0) return;
  for (size_t i = 0; i < images.size(); ++i) out.Set(static_cast<int64_t>(i) * width, static_cast<double>(i));
}

}  // namespace moka
