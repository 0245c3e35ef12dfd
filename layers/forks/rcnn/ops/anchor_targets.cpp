// The targets of a region proposal network (Ren et al. 2015, py-faster-rcnn's anchor_target_layer.py). Of the anchors
// inside the image those that overlap some true box by positive_overlap or more, and for each true box the best, are
// positive (1); those below negative_overlap with all are negative (0); the others and what sampling leaves out count
// as -1. Differing from it, a true box that no anchor overlaps makes none positive (there, every anchor without
// overlap).
#include "graph/op.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferAnchorTargets(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("anchor_targets", in, 3, 5);
  CheckTruth("anchor_targets", in[0]);
  CheckImageSize("anchor_targets", in[1], 2);
  CheckShape("anchor_targets", "key", in[2].shape, Shape{}, "a scalar");
  CheckAnchors("anchor_targets", attributes);
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("anchors").size()) / 4;
  const int64_t height = attributes.Int("height");
  const int64_t width = attributes.Int("width");
  if (height < 1 || width < 1) {
    throw Error(ErrorKind::kConfig,
                StrCat("anchor_targets: the map must be at least 1 x 1, found ", height, " x ", width));
  }
  const TensorType four = PlainType(DType::kFloat32, Shape{1, 4 * anchors, height, width});
  return {PlainType(DType::kFloat32, Shape{1, 1, (Size(anchors) * height).value(), width}), four, four, four};
}

// The labels of a run.
class Labels {
 public:
  Labels(const Attributes& attributes, const AnchorGrid& grid, const std::vector<TruthBox>& truth,
         std::span<const RefTensor> in)
      : attributes_(attributes), grid_(grid), truth_(truth), in_(in) {
    FindInside();
    Match();
    const auto batch = attributes.Int("batch");
    Keep(1, static_cast<int64_t>(attributes.Float("fg_fraction") * static_cast<double>(batch)));
    Keep(0, batch - static_cast<int64_t>(std::ranges::count(labels_, 1)));
    if (in.size() > 4) Set(in[4], 0);
    if (in.size() > 3) Set(in[3], 1);
  }

  const std::vector<int64_t>& inside() const { return inside_; }
  int label(size_t i) const { return labels_[i]; }
  const BestMatch& match(size_t i) const { return matches_[i]; }
  int64_t Count(int label) const { return std::ranges::count(labels_, label); }

 private:
  void FindInside() {
    const double border = attributes_.Float("allowed_border");
    const double bottom = in_[1].values[0] + border;
    const double right = in_[1].values[1] + border;
    for (int64_t i = 0; i < grid_.Count(); ++i) {
      const Box<double> box = grid_.At(i);
      if (box[0] >= -border && box[1] >= -border && box[2] < right && box[3] < bottom) inside_.push_back(i);
    }
  }

  void Match() {
    labels_.assign(inside_.size(), -1);
    std::vector<double> best_of_truth(truth_.size(), 0.0);
    for (const int64_t i : inside_) {
      matches_.push_back(BestOf(grid_.At(i), truth_));
      for (size_t g = 0; g < truth_.size(); ++g) {
        best_of_truth[g] = std::max(best_of_truth[g], Overlap(grid_.At(i), truth_[g].box, kPixelSide));
      }
    }
    const double negative = attributes_.Float("negative_overlap");
    const double positive = attributes_.Float("positive_overlap");
    const bool clobber = attributes_.Bool("clobber_positives");
    for (size_t k = 0; k < inside_.size(); ++k) {
      const bool is_best = IsBestOfSome(inside_[k], best_of_truth);
      const bool is_positive = truth_.empty() ? false : is_best || matches_[k].overlap >= positive;
      const bool is_negative = matches_[k].overlap < negative;
      if (is_positive) labels_[k] = 1;
      if (is_negative && (clobber || !is_positive)) labels_[k] = 0;
    }
  }

  bool IsBestOfSome(int64_t i, const std::vector<double>& best_of_truth) const {
    for (size_t g = 0; g < truth_.size(); ++g) {
      const double overlap = Overlap(grid_.At(i), truth_[g].box, kPixelSide);
      if (overlap > 0 && overlap == best_of_truth[g]) return true;
    }
    return false;
  }

  // Leaves `most` of the anchors with this label.
  void Keep(int label, int64_t most) {
    std::vector<int64_t> with;
    for (size_t k = 0; k < labels_.size(); ++k) {
      if (labels_[k] == label) with.push_back(static_cast<int64_t>(k));
    }
    const auto stream = static_cast<uint64_t>(attributes_.Int("stream")) * 2 + static_cast<uint64_t>(label);
    const std::vector<int64_t> kept = Sampled(with, std::max<int64_t>(most, 0), KeyOf(in_[2]), stream);
    for (const int64_t k : with) labels_[static_cast<size_t>(k)] = -1;
    for (const int64_t k : kept) labels_[static_cast<size_t>(k)] = label;
  }

  void Set(const RefTensor& indices, int label) {
    for (const double index : indices.values) {
      const auto at = std::ranges::lower_bound(inside_, static_cast<int64_t>(std::clamp(index, -1.0, 1e15)));
      if (at != inside_.end() && static_cast<double>(*at) == index)
        labels_[static_cast<size_t>(at - inside_.begin())] = label;
    }
  }

  const Attributes& attributes_;
  const AnchorGrid& grid_;
  const std::vector<TruthBox>& truth_;
  std::span<const RefTensor> in_;
  std::vector<int64_t> inside_;     // anchors
  std::vector<int> labels_;         // one each of inside_
  std::vector<BestMatch> matches_;  // likewise
};

void AnchorTargetsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const AnchorGrid grid{attributes.Get<Doubles>("anchors"), attributes.Float("stride"), attributes.Int("height"),
                        attributes.Int("width")};
  const std::vector<TruthBox> truth = TruthBoxes(in[0].values);
  const Labels labels(attributes, grid, truth, in);
  std::ranges::fill(out[0].values, -1.0);
  for (const size_t k : {1, 2, 3}) std::ranges::fill(out[k].values, 0.0);
  const double share = attributes.Float("positive_weight");
  const auto count = [&](int label) { return static_cast<double>(labels.Count(label)); };
  const double each = 1 / (count(0) + count(1));
  const double positive_weight = share < 0 ? each : share / count(1);
  const double negative_weight = share < 0 ? each : (1 - share) / count(0);
  for (size_t k = 0; k < labels.inside().size(); ++k) {
    const int64_t i = labels.inside()[k];
    const int label = labels.label(k);
    out[0].values[grid.Offset(i, 0, 1)] = label;
    std::array<double, 4> move{};
    if (labels.match(k).index >= 0) {
      move = MoveBetween(grid.At(i), truth[static_cast<size_t>(labels.match(k).index)].box);
    }
    for (int64_t c = 0; c < 4; ++c) {
      const size_t at = grid.Offset(i, c, 4);
      out[1].values[at] = move[static_cast<size_t>(c)];
      out[2].values[at] = label == 1 ? 1 : 0;
      out[3].values[at] = label == 1 ? positive_weight : label == 0 ? negative_weight : 0;
    }
  }
}

std::vector<OpCase> AnchorTargetsCases() {
  const Attributes attributes{{"anchors", Doubles{-4, -4, 7, 7, -1, -2, 6, 5}},
                              {"stride", 4.0},
                              {"height", int64_t{5}},
                              {"width", int64_t{6}},
                              {"allowed_border", 2.0},
                              {"batch", int64_t{12}},
                              {"stream", int64_t{3}}};
  const TensorType key{DType::kInt64, Shape{}, {}};
  const std::vector<OpCase::Range> ranges = {{0, 0, 19}, {1, 20, 20}, {2, 5, 5}, {3, -1, 20}, {4, -1, 20}};
  return {{.name = "sampled",
           .inputs = {Float32({6, 5}), Float32({1, 3}), key},
           .attributes = attributes,
           .ranges = ranges},
          {.name = "mixed",
           .inputs = {Float32({2, 5}), Float32({1, 3}), key, Float32({4}), Float32({4})},
           .attributes = With(attributes, {{"clobber_positives", true}, {"positive_weight", 0.25}}),
           .ranges = ranges}};
}

}  // namespace

OpDef AnchorTargetsOp() {
  return {.name = "anchor_targets",
          .doc =
              "(gt_boxes [G,5], im_info, key[, positive [M], negative [M] anchors to set after sampling]) -> labels "
              "[1,1,A*height,width], targets, inside and outside weights [1,4A,height,width].",
          .attributes = {{"anchors", {}, "boxes around the first cell, four numbers each"},
                         {"stride", {}, "image pixels from cell to cell"},
                         {"height", {}, "rows of the map"},
                         {"width", {}, "columns of the map"},
                         {"allowed_border", 0.0, "pixels by which an anchor may leave the image"},
                         {"positive_overlap", 0.7, "overlap of a positive anchor"},
                         {"negative_overlap", 0.3, "overlap below which an anchor is negative"},
                         {"clobber_positives", false, "whether an anchor that is both is negative"},
                         {"fg_fraction", 0.5, "the largest part of the batch that is positive"},
                         {"batch", int64_t{256}, "anchors with a label 0 or 1"},
                         {"positive_weight", -1.0, "weight of all positives; negative: every anchor counts the same"},
                         {"stream", {}, "number of the random stream"}},
          .infer = InferAnchorTargets,
          .reference = AnchorTargetsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMatches,
          .cases = AnchorTargetsCases};
}

}  // namespace moka
