// Mean average precision from the rows of DetectionEvaluate layers, as SSD's solver computes it: rows are added batch
// by batch, then each class's detections are ranked by score and the area under precision over recall is taken.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace moka {

// How the area is taken (solver field ap_version).
enum class PrecisionRule : uint8_t {
  kElevenPoint,  // VOC 2007: mean over recalls 0, 0.1, ..., 1 of the best precision from there on
  kMaxIntegral,  // VOC 2012, ILSVRC: under the curve made monotonous
  kIntegral,     // under the curve as it is
};
// "11point", "MaxIntegral", "Integral". Errors: kConfig with the nearest name.
PrecisionRule PrecisionRuleNamed(std::string_view name);

struct RankedDetection {
  float score = 0;
  bool right = false;
};
// The average precision of one class. 0 without detections or objects. Among equal scores the earlier comes first.
double AveragePrecision(std::span<const RankedDetection> detections, int64_t objects, PrecisionRule rule);

class DetectionScores {
 public:
  // Rows of five, as DetectionEvaluate gives them; padding and detections of difficult objects are left out.
  // Requires: a multiple of five numbers.
  void Add(std::span<const float> rows);

  // Returns the average precision of every class seen, by class.
  std::map<int64_t, double> AveragePrecisions(PrecisionRule rule) const;
  // The mean of the classes' precisions; 0 when no class was seen.
  double Mean(PrecisionRule rule) const;

  struct Class {
    int64_t objects = 0;
    std::vector<RankedDetection> detections;
  };
  // Returns all that was added, by class.
  const std::map<int64_t, Class>& classes() const { return classes_; }

 private:
  std::map<int64_t, Class> classes_;
};

}  // namespace moka
