// The scores that a classifier gave the samples of a test, and what they say class by class: who is taken for whom,
// precision, recall, F1 and average precision.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "optim/evaluators/ranked_curve.h"
#include "optim/evaluators/reliability.h"

namespace moka {

// The meaning of a class's score.
enum class ScoreKind : uint8_t {
  kLogits,         // a softmax makes probabilities of them
  kProbabilities,  // as they are
  kScores,         // the largest wins, and no more is known
};

// A sample as it was judged.
struct ScoredSample {
  int64_t number = 0;     // among the samples of the test, from 0
  int64_t label = 0;      // its class
  int64_t predicted = 0;  // the class of the largest score, of equal ones the first
  float confidence = 0;   // the probability of `predicted`, or its score
  float loss = 0;         // -log of the label's probability, or by how much its score is below the largest
};

// Samples of one class that were taken for one class.
struct ConfusionCell {
  int64_t label = 0;
  int64_t predicted = 0;
  int64_t count = 0;
  bool operator==(const ConfusionCell&) const = default;
};

// Counts of one class. What would be a share of nothing is none.
struct ClassCounts {
  int64_t support = 0;    // samples of the class
  int64_t predicted = 0;  // samples that were taken for it
  int64_t right = 0;      // both
  std::optional<double> precision() const;
  std::optional<double> recall() const;
  std::optional<double> f1() const;
  // Right over those that are or were taken for it: the intersection over union of pixels.
  std::optional<double> overlap() const;
};

// The counts of each of so many classes.
std::vector<ClassCounts> CountsOf(std::span<const ConfusionCell> cells, int64_t classes);

// One thread. Memory: 32 bytes a sample (16 more while Confusion runs), and the scores of as many samples as
// `curve_bytes` hold, spread evenly over the test; average precisions and curves are those of these samples.
class ClassScores {
 public:
  static constexpr int64_t kCurveBytes = int64_t{256} << 20;

  // `expected_samples`: how many will come at most. Requires: classes > 0.
  ClassScores(int64_t classes, ScoreKind kind, int64_t expected_samples, int64_t curve_bytes = kCurveBytes);

  // Takes a sample [classes]. Requires: 0 <= label < classes.
  const ScoredSample& Add(int64_t number, int64_t label, std::span<const float> scores);

  int64_t classes() const { return classes_; }
  bool has_probabilities() const { return kind_ != ScoreKind::kScores; }
  const std::vector<ScoredSample>& samples() const { return samples_; }
  int64_t hits() const { return hits_; }
  // Samples whose label is among the five largest scores.
  int64_t hits_of_five() const { return hits_of_five_; }
  // Samples that average precisions and curves are made of.
  int64_t curve_samples() const { return static_cast<int64_t>(kept_labels_.size()); }
  const Reliability& reliability() const { return reliability_; }

  // The cells that are not empty, by label and prediction.
  std::vector<ConfusionCell> Confusion() const;
  // The curve of each class, one against all others by its probability; none for a class without samples.
  std::vector<std::optional<RankedCurve>> Curves() const;

 private:
  int64_t classes_;
  ScoreKind kind_;
  int64_t stride_;  // every so many samples are kept for curves
  std::vector<ScoredSample> samples_;
  std::vector<float> kept_;           // [curve_samples, classes]
  std::vector<int64_t> kept_labels_;  // [curve_samples]
  std::vector<float> probabilities_;  // of the sample at hand
  Reliability reliability_;
  int64_t hits_ = 0;
  int64_t hits_of_five_ = 0;
};

}  // namespace moka
