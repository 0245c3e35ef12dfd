// Each sample is judged as it comes; matrices and curves are made of what was kept once all have come.
#include "optim/evaluators/class_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace moka {
namespace {

std::optional<double> Share(int64_t part, int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

// exp(x - max) over their sum, summed in double.
void Softmax(std::span<const float> logits, float largest, std::span<float> out) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += std::exp(static_cast<double>(logits[i]) - largest);
  for (size_t i = 0; i < logits.size(); ++i) {
    out[i] = static_cast<float>(std::exp(static_cast<double>(logits[i]) - largest) / sum);
  }
}

}  // namespace

std::optional<double> ClassCounts::precision() const { return Share(right, predicted); }
std::optional<double> ClassCounts::recall() const { return Share(right, support); }
std::optional<double> ClassCounts::f1() const { return Share(2 * right, support + predicted); }
std::optional<double> ClassCounts::overlap() const { return Share(right, support + predicted - right); }

std::vector<ClassCounts> CountsOf(std::span<const ConfusionCell> cells, int64_t classes) {
  std::vector<ClassCounts> counts(static_cast<size_t>(classes));
  for (const ConfusionCell& cell : cells) {
    counts.at(static_cast<size_t>(cell.label)).support += cell.count;
    counts.at(static_cast<size_t>(cell.predicted)).predicted += cell.count;
    if (cell.label == cell.predicted) counts.at(static_cast<size_t>(cell.label)).right += cell.count;
  }
  return counts;
}

ClassScores::ClassScores(int64_t classes, ScoreKind kind, int64_t expected_samples, int64_t curve_bytes)
    : classes_(classes), kind_(kind), probabilities_(static_cast<size_t>(classes)) {
  Require(classes > 0, "scores are of at least one class");
  const int64_t fits = std::max<int64_t>(1, curve_bytes / (classes * static_cast<int64_t>(sizeof(float))));
  stride_ = std::max<int64_t>(1, (expected_samples + fits - 1) / fits);
  // Room for all at once: a vector that grows holds its numbers twice.
  samples_.reserve(static_cast<size_t>(expected_samples));
  kept_labels_.reserve(static_cast<size_t>(expected_samples / stride_ + 1));
  kept_.reserve(kept_labels_.capacity() * static_cast<size_t>(classes));
}

const ScoredSample& ClassScores::Add(int64_t number, int64_t label, std::span<const float> scores) {
  Require(std::ssize(scores) == classes_ && label >= 0 && label < classes_, "a sample has a score of each class");
  const auto best = std::ranges::max_element(scores);
  const auto of_label = static_cast<size_t>(label);
  std::span<const float> probabilities = scores;
  if (kind_ == ScoreKind::kLogits) {
    Softmax(scores, *best, probabilities_);
    probabilities = probabilities_;
  }
  ScoredSample sample{.number = number, .label = label, .predicted = best - scores.begin()};
  sample.confidence = probabilities[static_cast<size_t>(sample.predicted)];
  // As Caffe's losses: a probability of 0 is taken for the smallest number there is.
  sample.loss = kind_ == ScoreKind::kScores
                    ? *best - scores[of_label]
                    : -std::log(std::max(probabilities[of_label], std::numeric_limits<float>::min()));
  const bool is_right = sample.predicted == label;
  hits_ += is_right ? 1 : 0;
  const auto above = std::ranges::count_if(scores, [&](float score) { return score > scores[of_label]; });
  hits_of_five_ += above < 5 ? 1 : 0;
  if (has_probabilities()) reliability_.Add(static_cast<double>(sample.confidence), is_right);
  if (std::ssize(samples_) % stride_ == 0) {
    kept_.insert(kept_.end(), probabilities.begin(), probabilities.end());
    kept_labels_.push_back(label);
  }
  samples_.push_back(sample);
  return samples_.back();
}

std::vector<ConfusionCell> ClassScores::Confusion() const {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  pairs.reserve(samples_.size());
  for (const ScoredSample& sample : samples_) pairs.emplace_back(sample.label, sample.predicted);
  std::ranges::sort(pairs);
  std::vector<ConfusionCell> cells;
  for (const auto& [label, predicted] : pairs) {
    const bool is_same = !cells.empty() && cells.back().label == label && cells.back().predicted == predicted;
    if (is_same) {
      ++cells.back().count;
    } else {
      cells.push_back({label, predicted, 1});
    }
  }
  return cells;
}

std::vector<std::optional<RankedCurve>> ClassScores::Curves() const {
  std::vector<int64_t> support(static_cast<size_t>(classes_));
  for (const int64_t label : kept_labels_) ++support[static_cast<size_t>(label)];
  std::vector<std::optional<RankedCurve>> curves(static_cast<size_t>(classes_));
  std::vector<RankedDetection> ranked(kept_labels_.size());
  for (size_t c = 0; c < curves.size(); ++c) {
    if (support[c] == 0) continue;
    for (size_t i = 0; i < ranked.size(); ++i) {
      ranked[i] = {.score = kept_[i * curves.size() + c], .right = kept_labels_[i] == static_cast<int64_t>(c)};
    }
    curves[c] = RankedCurveOf(ranked, support[c]);
  }
  return curves;
}

}  // namespace moka
