// Average precision as COCO defines it (Lin et al., arXiv 1405.0312, and the evaluation code of its authors): matching
// at ten overlaps, precision read at 101 recalls. What overlaps, and by how much, is the caller's business, so boxes
// and masks are evaluated alike.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace moka {

// A detection of one image and class.
struct CocoDetection {
  float score = 0;
  double area = 0;  // pixels; looked at where the precision has sizes
};
struct CocoObject {
  double area = 0;          // pixels
  bool is_ignored = false;  // detections of it count neither as right nor as wrong
  bool is_crowd = false;    // ignored, and any number of detections may be of it
};

// The objects that count, by their area. Detections of others, and those of another size that are of no object, count
// neither as right nor as wrong.
enum class CocoSize : uint8_t { kAll, kSmall, kMedium, kLarge };
inline constexpr size_t kCocoSizes = 4;

// 0.5, 0.55, ..., 0.95.
inline constexpr size_t kCocoOverlaps = 10;
double CocoOverlap(size_t i);

// Adds up what the images of a test show. One thread.
class CocoPrecision {
 public:
  // Small is up to 32x32 pixels, large from 96x96 on, both bounds included, as in COCO; without sizes only kAll is
  // counted.
  struct Options {
    bool has_sizes = false;
    int64_t max_detections = 100;  // of an image and class, those of the highest scores
  };
  explicit CocoPrecision(const Options& options) : options_(options) {}

  void Clear() { classes_.clear(); }
  // The detections of one image and class, in any order, with its objects: all of the class, in one call.
  // `overlaps` [detections, objects] are intersections over unions; with a crowd, over the detection's area.
  // Requires: overlaps.size() = detections.size() * objects.size(). An image without either need not be added.
  void Add(int64_t label, std::span<const CocoDetection> detections, std::span<const CocoObject> objects,
           std::span<const double> overlaps);

  // The average precision at one of the overlaps; none where the class has no object of the size.
  std::optional<double> Of(int64_t label, size_t overlap, CocoSize size = CocoSize::kAll) const;
  // The mean over the overlaps of each class that has objects of the size.
  std::map<int64_t, double> MeanOfEach(CocoSize size = CocoSize::kAll) const;
  // COCO's AP: the mean over classes and overlaps. None without objects of the size.
  std::optional<double> Mean(CocoSize size = CocoSize::kAll) const;
  // The mean over classes at one overlap: AP50 at 0, AP75 at 5.
  std::optional<double> MeanAt(size_t overlap, CocoSize size = CocoSize::kAll) const;

 private:
  // The verdict on a detection at each overlap: bit i of `right` or `wrong`, neither where it does not count.
  struct Judged {
    float score = 0;
    uint16_t right = 0;
    uint16_t wrong = 0;
  };
  struct Counted {
    int64_t objects = 0;  // that are not ignored
    std::vector<Judged> detections;
  };
  using Class = std::array<Counted, kCocoSizes>;

  Options options_;
  std::map<int64_t, Class> classes_;
};

}  // namespace moka
