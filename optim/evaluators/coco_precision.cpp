// The matching of pycocotools: detections by falling score take the best free object above the threshold, ignored
// objects last; precision is made monotone and read at 101 recalls.
#include "optim/evaluators/coco_precision.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace moka {
namespace {

constexpr double kSmallArea = 32.0 * 32;
constexpr double kLargeArea = 96.0 * 96;
constexpr size_t kRecalls = 101;  // 0, 0.01, ..., 1

struct AreaRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool Has(double area) const { return area >= least && area <= most; }
};

AreaRange RangeOf(CocoSize size) {
  switch (size) {
    case CocoSize::kSmall: return {.most = kSmallArea};
    case CocoSize::kMedium: return {kSmallArea, kLargeArea};
    case CocoSize::kLarge: return {.least = kLargeArea};
    case CocoSize::kAll: break;
  }
  return {};
}

// NaNs last: a sort needs an order.
bool IsBefore(float a, float b) { return a > b || (std::isnan(b) && !std::isnan(a)); }

// Places by falling score, equals in their order.
std::vector<size_t> RankedPlaces(std::span<const CocoDetection> detections) {
  std::vector<size_t> order(detections.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return IsBefore(detections[a].score, detections[b].score); });
  return order;
}

// One image's objects of one class and how far detections overlap them.
struct CocoScene {
  std::span<const CocoObject> objects;
  std::vector<bool> is_ignored;
  std::vector<size_t> order;         // of objects, ignored ones last
  std::span<const double> overlaps;  // [detections, objects]
};

constexpr size_t kNone = SIZE_MAX;

// The object that a detection takes: the one it overlaps most, and by the threshold at least, of those that are free;
// an ignored one only where it reaches no other. Of equals the later one, as in COCO's code.
size_t CocoMatch(const CocoScene& scene, size_t detection, double threshold, const std::vector<bool>& is_taken) {
  double best = std::min(threshold, 1 - 1e-10);
  size_t match = kNone;
  for (const size_t o : scene.order) {
    if (is_taken[o] && !scene.objects[o].is_crowd) continue;
    if (match != kNone && !scene.is_ignored[match] && scene.is_ignored[o]) break;
    const double overlap = scene.overlaps[detection * scene.objects.size() + o];
    if (!(overlap >= best)) continue;
    best = overlap;
    match = o;
  }
  return match;
}

}  // namespace

// numpy's linspace(0.5, 0.95, 10), to the last bit: an overlap may lie on a threshold.
double CocoOverlap(size_t i) {
  constexpr double kStep = (0.95 - 0.5) / (kCocoOverlaps - 1);
  return i + 1 == kCocoOverlaps ? 0.95 : static_cast<double>(i) * kStep + 0.5;
}

void CocoPrecision::Add(int64_t label, std::span<const CocoDetection> detections, std::span<const CocoObject> objects,
                        std::span<const double> overlaps) {
  Require(overlaps.size() == detections.size() * objects.size(), "CocoPrecision: an overlap of each pair");
  std::vector<size_t> ranked = RankedPlaces(detections);
  ranked.resize(std::min(ranked.size(), static_cast<size_t>(options_.max_detections)));
  Class& counted = classes_[label];
  for (size_t size = 0; size < (options_.has_sizes ? kCocoSizes : 1); ++size) {
    const AreaRange range = RangeOf(static_cast<CocoSize>(size));
    CocoScene scene{objects, {}, {}, overlaps};
    for (const CocoObject& object : objects) {
      scene.is_ignored.push_back(object.is_ignored || object.is_crowd || !range.Has(object.area));
    }
    for (const bool ignored : {false, true}) {
      for (size_t o = 0; o < objects.size(); ++o) {
        if (scene.is_ignored[o] == ignored) scene.order.push_back(o);
      }
    }
    counted.at(size).objects += std::ranges::count(scene.is_ignored, false);
    std::vector<Judged> judged;
    for (const size_t d : ranked) judged.push_back({.score = detections[d].score});
    for (size_t t = 0; t < kCocoOverlaps; ++t) {
      const auto bit = static_cast<uint16_t>(1U << t);
      std::vector<bool> is_taken(objects.size());
      for (size_t i = 0; i < ranked.size(); ++i) {
        const size_t match = CocoMatch(scene, ranked[i], CocoOverlap(t), is_taken);
        if (match != kNone) is_taken[match] = true;
        if (match != kNone && !scene.is_ignored[match]) judged[i].right |= bit;
        if (match == kNone && range.Has(detections[ranked[i]].area)) judged[i].wrong |= bit;
      }
    }
    counted.at(size).detections.insert(counted.at(size).detections.end(), judged.begin(), judged.end());
  }
}

std::optional<double> CocoPrecision::Of(int64_t label, size_t overlap, CocoSize size) const {
  const auto found = classes_.find(label);
  if (found == classes_.end()) return std::nullopt;
  const Counted& counted = found->second.at(static_cast<size_t>(size));
  if (counted.objects == 0) return std::nullopt;
  std::vector<Judged> ranked = counted.detections;
  std::ranges::stable_sort(ranked, [](const Judged& a, const Judged& b) { return IsBefore(a.score, b.score); });
  std::vector<double> precision;
  std::vector<double> recall;
  int64_t right = 0;
  int64_t seen = 0;
  for (const Judged& d : ranked) {
    const bool is_right = ((d.right >> overlap) & 1U) != 0;
    const bool is_wrong = ((d.wrong >> overlap) & 1U) != 0;
    right += is_right ? 1 : 0;
    seen += is_right || is_wrong ? 1 : 0;
    precision.push_back(seen == 0 ? 0 : static_cast<double>(right) / static_cast<double>(seen));
    recall.push_back(static_cast<double>(right) / static_cast<double>(counted.objects));
  }
  for (size_t i = precision.size(); i > 1; --i) precision[i - 2] = std::max(precision[i - 2], precision[i - 1]);
  double sum = 0;
  for (size_t r = 0; r < kRecalls; ++r) {
    const double at = static_cast<double>(r) * 0.01;  // linspace's: 0.07 is a bit above 7 of 100
    const auto reached = std::ranges::lower_bound(recall, at) - recall.begin();
    if (reached < std::ssize(precision)) sum += precision[static_cast<size_t>(reached)];
  }
  return sum / kRecalls;
}

std::map<int64_t, double> CocoPrecision::MeanOfEach(CocoSize size) const {
  std::map<int64_t, double> means;
  for (const auto& [label, counted] : classes_) {
    double sum = 0;
    for (size_t t = 0; t < kCocoOverlaps; ++t) {
      if (const std::optional<double> one = Of(label, t, size)) sum += *one;
    }
    if (counted.at(static_cast<size_t>(size)).objects > 0) means[label] = sum / kCocoOverlaps;
  }
  return means;
}

std::optional<double> CocoPrecision::Mean(CocoSize size) const {
  const std::map<int64_t, double> means = MeanOfEach(size);
  if (means.empty()) return std::nullopt;
  double sum = 0;
  for (const auto& [label, mean] : means) sum += mean;
  return sum / static_cast<double>(means.size());
}

std::optional<double> CocoPrecision::MeanAt(size_t overlap, CocoSize size) const {
  double sum = 0;
  int64_t count = 0;
  for (const auto& [label, counted] : classes_) {
    const std::optional<double> one = Of(label, overlap, size);
    if (!one) continue;
    sum += *one;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

}  // namespace moka
