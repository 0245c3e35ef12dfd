// The choices of SSD's MultiBoxLoss for one image: which prior learns which object (bipartite, then by overlap), which
// priors count for the confidence loss (hard negatives or examples), and the targets of both. Keeps its memory from
// image to image. One thread.
#pragma once

#include <span>
#include <vector>

#include "layers/forks/ssd/ops/boxes.h"

namespace moka {

struct MultiboxSettings {
  enum class Mining { kNone, kMaxNegative, kHardExample };

  int64_t classes = 1;
  bool share_location = true;
  int64_t background = 0;
  BoxCoding coding;
  // Matching.
  bool per_prediction = true;  // bipartite only, otherwise
  double overlap_threshold = 0.5;
  bool use_prior = true;  // priors are matched; otherwise the predicted boxes
  bool use_difficult = true;
  bool ignore_crossing = false;  // boxes that leave the image match nothing
  bool agnostic = false;         // every object has the class background + 1
  bool inside_only = false;      // coordinates outside the image learn nothing
  // Losses.
  bool smooth_l1 = true;  // otherwise squares
  bool softmax = true;    // otherwise a sigmoid a class
  // Mining.
  Mining mining = Mining::kMaxNegative;
  double neg_pos_ratio = 3;
  double neg_overlap = 0.5;
  int64_t sample_size = 64;
  double nms_threshold = 0;  // 0: no suppression
  int64_t nms_top_k = -1;
  bool nms_on_priors = false;
  bool polygon = false;      // TextBoxes++: the corners of a polygon follow each box
  double objectness = 0.01;  // RefineDet: negatives the first stage holds below this are left out

  int64_t location_classes() const { return share_location ? 1 : classes; }
  int64_t location_numbers() const { return polygon ? 12 : 4; }
  int64_t truth_width() const { return polygon ? 16 : 8; }
  // Errors: kConfig for a word that is none.
  static MultiboxSettings Of(const Attributes& attributes);
};
std::vector<AttributeSpec> MultiboxAttributes();

// The numbers of one image. P priors, L location classes, C classes; K is 4, or 12 with polygons.
struct MultiboxImage {
  Reals loc;       // [P,L,K]
  Reals conf;      // [P,C]
  Reals arm_conf;  // [P,2] of RefineDet's first stage, or empty
  Reals arm_loc;   // [P,4] of the same, or empty
  Reals truth;     // all rows of the ground truth
};

struct MultiboxTargets {
  RealsOut loc;         // [P,L,K]: the code wanted
  RealsOut loc_weight;  // [P,L,K]: what (predicted - wanted) is multiplied by; 0: nothing is learnt
  RealsOut conf;        // softmax: [P] the class, -1: not counted; else [P,C] 0 or 1, -1: not counted
};

class MultiboxMatcher {
 public:
  explicit MultiboxMatcher(const MultiboxSettings& settings) : s_(settings) {}

  // Writes the targets of one image; returns the number of matches. Requires: rows of truth have labels that are
  // classes, not the background.
  int64_t Match(const MultiboxImage& image, std::span<const Box> priors, std::span<const BoxCode> variances,
                std::span<const TruthRow> truth, const MultiboxTargets& targets);

 private:
  struct Pair {
    int64_t box;
    int64_t object;
    double overlap;
  };
  // The match of each box of one location class: an object, kFree or kIgnored; and its best overlap.
  struct Matches {
    std::vector<int64_t> object;
    std::vector<double> overlap;
  };
  static constexpr int64_t kFree = -1;
  static constexpr int64_t kIgnored = -2;

  int64_t label(int64_t object) const;
  void FindPriors(const MultiboxImage& image, std::span<const Box> priors, std::span<const BoxCode> variances);
  void DecodePredictions(const MultiboxImage& image, std::span<const BoxCode> variances, int64_t c);
  void FindMatches(const MultiboxImage& image, std::span<const BoxCode> variances);
  void MatchBoxes(std::span<const Box> boxes, int64_t only_label, Matches& matches);
  void MatchBipartite(Matches& matches);
  void MatchRest(Matches& matches);
  void Mine(const MultiboxImage& image, std::span<const Box> priors, std::span<const BoxCode> variances);
  double ConfLoss(const MultiboxImage& image, int64_t p) const;
  double LocLoss(const MultiboxImage& image, std::span<const BoxCode> variances, int64_t p) const;
  // Sets code and weight of a matched (prior, class).
  void LocTarget(const MultiboxImage& image, const BoxCode& variance, int64_t p, int64_t c, BoxCode& code,
                 BoxCode& weight) const;
  // Writes the eight numbers of its polygon.
  void WritePolygon(const MultiboxImage& image, const BoxCode& variance, int64_t p, int64_t c,
                    const MultiboxTargets& targets) const;
  int64_t WriteTargets(const MultiboxImage& image, std::span<const BoxCode> variances, const MultiboxTargets& targets);

  MultiboxSettings s_;
  std::span<const TruthRow> truth_;
  std::span<const Box> priors_;  // moved by the first stage, if there is one
  std::vector<Box> moved_;       // by the first stage
  std::vector<Box> decoded_;     // predictions of one class
  std::vector<Pair> pairs_;      // overlaps above 1e-6, by box then object
  std::vector<int64_t> best_;    // an object's best pair still free, or -1
  std::vector<int64_t> first_;   // where an object's pairs begin in by_object_
  std::vector<int64_t> by_object_;
  std::vector<Matches> matches_;  // one a location class
  std::vector<double> losses_;
  std::vector<int64_t> order_;
  std::vector<int64_t> kept_;
  std::vector<bool> selected_;  // by the mining
};

}  // namespace moka
