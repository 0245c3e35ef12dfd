// Bipartite matching is greedy by overlap, with the best pair kept for each object and looked for again only when its
// box is taken. Mining sorts negatives by their loss.
#include "layers/forks/ssd/ops/multibox.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

namespace moka {

int64_t MultiboxMatcher::label(int64_t object) const {
  return s_.agnostic ? s_.background + 1 : truth_[static_cast<size_t>(object)].label;
}

// RefineDet's second stage starts from the boxes of the first.
void MultiboxMatcher::FindPriors(const MultiboxImage& image, std::span<const Box> priors,
                                 std::span<const BoxCode> variances) {
  priors_ = priors;
  if (image.arm_loc.empty()) return;
  moved_.resize(priors.size());
  for (size_t p = 0; p < priors.size(); ++p) {
    moved_[p] = Decode(s_.coding, priors[p], variances[p], image.arm_loc.Four(static_cast<int64_t>(p) * 4));
  }
  priors_ = moved_;
}

void MultiboxMatcher::DecodePredictions(const MultiboxImage& image, std::span<const BoxCode> variances, int64_t c) {
  decoded_.resize(priors_.size());
  for (size_t p = 0; p < priors_.size(); ++p) {
    const int64_t at = (static_cast<int64_t>(p) * s_.location_classes() + c) * s_.location_numbers();
    decoded_[p] = Decode(s_.coding, priors_[p], variances[p], image.loc.Four(at));
  }
}

void MultiboxMatcher::FindMatches(const MultiboxImage& image, std::span<const BoxCode> variances) {
  const int64_t classes = s_.location_classes();
  matches_.resize(static_cast<size_t>(classes));
  if (s_.use_prior) MatchBoxes(priors_, -1, matches_[0]);
  for (int64_t c = 0; c < classes && !s_.use_prior; ++c) {
    if (!s_.share_location && c == s_.background) continue;
    DecodePredictions(image, variances, c);
    MatchBoxes(decoded_, s_.share_location ? -1 : c, matches_[static_cast<size_t>(c)]);
  }
  if (s_.share_location || !s_.use_prior) return;
  // A prior's match belongs to the class of its object.
  for (int64_t c = classes - 1; c >= 0; --c) {
    Matches& of_class = matches_[static_cast<size_t>(c)];
    of_class = matches_[0];
    for (int64_t& object : of_class.object) {
      if (object >= 0 && truth_[static_cast<size_t>(object)].label != c) object = kFree;
    }
  }
}

// Matches objects of `only_label` only, or all (-1).
void MultiboxMatcher::MatchBoxes(std::span<const Box> boxes, int64_t only_label, Matches& matches) {
  matches.object.assign(boxes.size(), kFree);
  matches.overlap.assign(boxes.size(), 0.0);
  pairs_.clear();
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (s_.ignore_crossing && CrossesBorder(boxes[i])) {
      matches.object[i] = kIgnored;
      continue;
    }
    for (size_t j = 0; j < truth_.size(); ++j) {
      if (only_label >= 0 && truth_[j].label != only_label) continue;
      const double overlap = Overlap(boxes[i], truth_[j].box);
      if (!(overlap > 1e-6)) continue;
      pairs_.push_back({static_cast<int64_t>(i), static_cast<int64_t>(j), overlap});
      matches.overlap[i] = std::max(matches.overlap[i], overlap);
    }
  }
  MatchBipartite(matches);
  if (s_.per_prediction) MatchRest(matches);
}

// The pair with the highest overlap of all becomes a match, and so on until no object is left: among equals the lower
// box, then the lower object. An object's best pair is looked for again only when its box is taken.
void MultiboxMatcher::MatchBipartite(Matches& matches) {
  constexpr int64_t kNone = -1;
  constexpr int64_t kUnknown = -2;
  first_.assign(truth_.size() + 1, 0);
  for (const Pair& pair : pairs_) ++first_[static_cast<size_t>(pair.object) + 1];
  for (size_t j = 1; j < first_.size(); ++j) first_[j] += first_[j - 1];
  by_object_.resize(pairs_.size());
  order_.assign(first_.begin(), first_.end() - 1);
  for (size_t k = 0; k < pairs_.size(); ++k) {
    by_object_[static_cast<size_t>(order_[static_cast<size_t>(pairs_[k].object)]++)] = static_cast<int64_t>(k);
  }
  const auto pair_of = [&](int64_t k) -> const Pair& { return pairs_[static_cast<size_t>(k)]; };
  best_.assign(truth_.size(), kUnknown);
  while (true) {
    int64_t chosen = kNone;
    for (size_t j = 0; j < best_.size(); ++j) {
      if (best_[j] == kNone) continue;
      const bool is_stale = best_[j] == kUnknown || matches.object[static_cast<size_t>(pair_of(best_[j]).box)] != kFree;
      if (is_stale) {
        best_[j] = kNone;
        for (int64_t n = first_[j]; n < first_[j + 1]; ++n) {
          const int64_t k = by_object_[static_cast<size_t>(n)];
          if (matches.object[static_cast<size_t>(pair_of(k).box)] != kFree) continue;
          if (best_[j] == kNone || pair_of(k).overlap > pair_of(best_[j]).overlap) best_[j] = k;
        }
        if (best_[j] == kNone) continue;
      }
      const Pair& pair = pair_of(best_[j]);
      if (chosen == kNone || pair.overlap > pair_of(chosen).overlap ||
          (pair.overlap == pair_of(chosen).overlap && pair.box < pair_of(chosen).box)) {
        chosen = best_[j];
      }
    }
    if (chosen == kNone) return;
    const Pair& pair = pair_of(chosen);
    matches.object[static_cast<size_t>(pair.box)] = pair.object;
    matches.overlap[static_cast<size_t>(pair.box)] = pair.overlap;
    best_[static_cast<size_t>(pair.object)] = kNone;
  }
}

// Each box still free takes the object it overlaps most, if by the threshold; among equals the lower object.
void MultiboxMatcher::MatchRest(Matches& matches) {
  for (size_t k = 0; k < pairs_.size();) {
    const int64_t box = pairs_[k].box;
    const Pair* best = nullptr;
    for (; k < pairs_.size() && pairs_[k].box == box; ++k) {
      const bool fits = pairs_[k].overlap >= s_.overlap_threshold;
      if (fits && (best == nullptr || pairs_[k].overlap > best->overlap)) best = &pairs_[k];
    }
    const auto at = static_cast<size_t>(box);
    if (best == nullptr || matches.object[at] != kFree) continue;
    matches.object[at] = best->object;
    matches.overlap[at] = best->overlap;
  }
}

// The loss of prior p's confidences for the class it has now.
double MultiboxMatcher::ConfLoss(const MultiboxImage& image, int64_t p) const {
  const Reals x = image.conf.From(p * s_.classes);
  const int64_t object = matches_[0].object[static_cast<size_t>(p)];
  const int64_t wanted = object >= 0 ? label(object) : s_.background;
  if (!s_.softmax) {
    double loss = 0;
    for (int64_t c = 0; c < s_.classes; ++c) {
      const double target = c == wanted ? 1 : 0;
      loss += std::max(x[c], 0.0) - x[c] * target + std::log1p(std::exp(-std::abs(x[c])));
    }
    return loss;
  }
  double max = x[0];
  for (int64_t c = 1; c < s_.classes; ++c) max = std::max(max, x[c]);
  double sum = 0;
  for (int64_t c = 0; c < s_.classes; ++c) sum += std::exp(x[c] - max);
  return -std::log(std::max(std::exp(x[wanted] - max) / sum, static_cast<double>(FLT_MIN)));
}

void MultiboxMatcher::LocTarget(const MultiboxImage& image, const BoxCode& variance, int64_t p, int64_t c,
                                BoxCode& code, BoxCode& weight) const {
  const Matches& matches = matches_[static_cast<size_t>(c)];
  const Box& prior = priors_[static_cast<size_t>(p)];
  const auto object = static_cast<size_t>(matches.object[static_cast<size_t>(p)]);
  code = Encode(s_.coding, prior, variance, truth_[object].box);
  for (size_t k = 0; k < weight.size(); ++k) weight[k] = s_.coding.variance_in_target ? 1 / variance[k] : 1;
  if (!s_.inside_only) return;
  const BoxCode predicted = image.loc.Four((p * s_.location_classes() + c) * s_.location_numbers());
  const Box box = s_.use_prior || s_.polygon ? prior : Decode(s_.coding, prior, variance, predicted);
  const BoxCode corners = {box.xmin, box.ymin, box.xmax, box.ymax};
  for (size_t k = 0; k < weight.size(); ++k) {
    if (corners[k] < 0 || corners[k] > 1) weight[k] = 0;
  }
}

double MultiboxMatcher::LocLoss(const MultiboxImage& image, std::span<const BoxCode> variances, int64_t p) const {
  if (matches_[0].object[static_cast<size_t>(p)] < 0) return 0;
  BoxCode code;
  BoxCode weight;
  LocTarget(image, variances[static_cast<size_t>(p)], p, 0, code, weight);
  double loss = 0;
  for (size_t k = 0; k < code.size(); ++k) {
    const double d = std::abs(weight[k] * (image.loc[p * s_.location_numbers() + static_cast<int64_t>(k)] - code[k]));
    loss += s_.smooth_l1 && d >= 1 ? d - 0.5 : 0.5 * d * d;
  }
  return loss;
}

// Selects the priors with the highest losses: negatives, as many as neg_pos_ratio allows (kMaxNegative), or sample_size
// priors of any kind (kHardExample), where matches not selected are dropped.
void MultiboxMatcher::Mine(const MultiboxImage& image, std::span<const Box> priors,
                           std::span<const BoxCode> variances) {
  Matches& matches = matches_[0];
  const bool hard = s_.mining == MultiboxSettings::Mining::kHardExample;
  const size_t count = priors_.size();
  losses_.assign(count, -std::numeric_limits<double>::infinity());
  int64_t eligible = 0;
  int64_t positives = 0;
  for (size_t p = 0; p < count; ++p) {
    const auto at = static_cast<int64_t>(p);
    if (matches.object[p] >= 0) ++positives;
    if (!hard && (matches.object[p] != kFree || !(matches.overlap[p] < s_.neg_overlap))) continue;
    if (!image.arm_conf.empty() && !(image.arm_conf[at * 2 + 1] >= s_.objectness)) continue;
    losses_[p] = ConfLoss(image, at) + (hard ? LocLoss(image, variances, at) : 0);
    ++eligible;
  }
  // Caffe multiplies floats and cuts the fraction.
  const double negatives = std::floor(static_cast<double>(positives) * s_.neg_pos_ratio);
  const auto wanted = std::min(static_cast<double>(eligible), hard ? static_cast<double>(s_.sample_size) : negatives);
  const auto limit = static_cast<int64_t>(std::max(0.0, wanted));
  const std::vector<int64_t>* chosen = &order_;
  if (s_.nms_threshold > 0) {
    if (!s_.nms_on_priors) DecodePredictions(image, variances, 0);
    const std::span<const Box> boxes = s_.nms_on_priors ? priors : std::span<const Box>(decoded_);
    RankScores(losses_, -std::numeric_limits<double>::infinity(), s_.nms_top_k, order_);
    std::erase_if(order_, [&](int64_t p) { return Area(boxes[static_cast<size_t>(p)]) < 1e-5; });
    SuppressOverlaps(boxes, order_, s_.nms_threshold, 1, kept_);
    chosen = &kept_;
  } else {
    RankScores(losses_, -std::numeric_limits<double>::infinity(), limit, order_);
  }
  selected_.assign(count, false);
  for (size_t n = 0; n < std::min(chosen->size(), static_cast<size_t>(limit)); ++n) {
    selected_[static_cast<size_t>((*chosen)[n])] = true;
  }
  for (size_t p = 0; p < count; ++p) {
    if (hard && matches.object[p] >= 0 && !selected_[p]) matches.object[p] = kIgnored;
  }
}

void MultiboxMatcher::WritePolygon(const MultiboxImage& image, const BoxCode& variance, int64_t p, int64_t c,
                                   const MultiboxTargets& targets) const {
  const auto object = static_cast<size_t>(matches_[static_cast<size_t>(c)].object[static_cast<size_t>(p)]);
  const Box& prior = priors_[static_cast<size_t>(p)];
  const Polygon wanted = image.truth.EightAt(truth_[object].row * s_.truth_width() + 8);
  const Polygon code = EncodePolygon(prior, variance, wanted);
  // The sides that switch x1, y1, ... off: TextBoxes++ asks xmax for x4.
  const Polygon sides = {prior.xmin, prior.ymin, prior.xmax, prior.ymax,
                         prior.xmax, prior.ymax, prior.xmax, prior.ymax};
  for (size_t k = 0; k < code.size(); ++k) {
    const int64_t at = (p * s_.location_classes() + c) * s_.location_numbers() + 4 + static_cast<int64_t>(k);
    targets.loc.Set(at, code[k]);
    targets.loc_weight.Set(at, s_.inside_only && (sides[k] < 0 || sides[k] > 1) ? 0 : 1);
  }
}

int64_t MultiboxMatcher::WriteTargets(const MultiboxImage& image, std::span<const BoxCode> variances,
                                      const MultiboxTargets& targets) {
  const int64_t classes = s_.location_classes();
  int64_t count = 0;
  for (int64_t p = 0; p < static_cast<int64_t>(priors_.size()); ++p) {
    const bool is_negative = s_.mining != MultiboxSettings::Mining::kNone &&
                             matches_[0].object[static_cast<size_t>(p)] == kFree && selected_[static_cast<size_t>(p)];
    if (is_negative && s_.softmax) targets.conf.Set(p, static_cast<double>(s_.background));
    bool is_open = !is_negative;
    const auto open = [&] {
      targets.conf.Fill(p * s_.classes, (p + 1) * s_.classes, 0);
      is_open = false;
    };
    if (is_negative && !s_.softmax) {
      open();
      targets.conf.Set(p * s_.classes + s_.background, 1);
    }
    for (int64_t c = 0; c < classes; ++c) {
      if (!s_.share_location && c == s_.background) continue;
      const int64_t object = matches_[static_cast<size_t>(c)].object[static_cast<size_t>(p)];
      if (object < 0) continue;
      ++count;
      BoxCode code;
      BoxCode weight;
      LocTarget(image, variances[static_cast<size_t>(p)], p, c, code, weight);
      for (size_t k = 0; k < code.size(); ++k) {
        const int64_t at = (p * classes + c) * s_.location_numbers() + static_cast<int64_t>(k);
        targets.loc.Set(at, code[k]);
        targets.loc_weight.Set(at, weight[k]);
      }
      if (s_.polygon) WritePolygon(image, variances[static_cast<size_t>(p)], p, c, targets);
      if (s_.softmax) {
        targets.conf.Set(p, static_cast<double>(label(object)));
        continue;
      }
      if (is_open) open();
      targets.conf.Set(p * s_.classes + label(object), 1);
    }
  }
  return count;
}

int64_t MultiboxMatcher::Match(const MultiboxImage& image, std::span<const Box> priors,
                               std::span<const BoxCode> variances, std::span<const TruthRow> truth,
                               const MultiboxTargets& targets) {
  const auto count = static_cast<int64_t>(priors.size());
  const int64_t numbers = count * s_.location_classes() * s_.location_numbers();
  targets.loc.Fill(0, numbers, 0);
  targets.loc_weight.Fill(0, numbers, 0);
  // If nothing is mined, every prior counts, as background until matched (a sigmoid's background has no class of its
  // own).
  const double uncounted = s_.softmax ? static_cast<double>(s_.background) : 0;
  const bool mines = s_.mining != MultiboxSettings::Mining::kNone;
  targets.conf.Fill(0, count * (s_.softmax ? 1 : s_.classes), mines ? -1 : uncounted);
  if (truth.empty()) return 0;
  truth_ = truth;
  FindPriors(image, priors, variances);
  FindMatches(image, variances);
  if (mines) Mine(image, priors, variances);
  return WriteTargets(image, variances, targets);
}

}  // namespace moka
