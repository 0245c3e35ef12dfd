// The targets of a region proposal network over a pyramid (Ren et al. 2015; Lin et al. 2017), image by image:
// anchors that overlap some object by positive_overlap, and for each object the best, are positive; those below
// negative_overlap with all are negative; of both a sample counts. Weights are such that a sum over weighted errors,
// divided by the images, is the mean over all anchors sampled.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kPyramidAnchorTargetsOp = "pyramid_anchor_targets";

AnchorPyramid TargetPyramid(const Attributes& attributes) {
  return AnchorPyramidOf(kPyramidAnchorTargetsOp, attributes, attributes.Get<Ints>("heights"),
                         attributes.Get<Ints>("widths"));
}

std::vector<TensorType> InferPyramidAnchorTargets(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kPyramidAnchorTargetsOp, in, 2, 2);
  CheckPictureTruth(kPyramidAnchorTargetsOp, in[0]);
  CheckShape(kPyramidAnchorTargetsOp, "key", in[1].shape, Shape{}, "a scalar");
  (void)PictureExtent::Of(kPyramidAnchorTargetsOp, attributes);
  const int64_t pictures = attributes.Int("pictures");
  const int64_t anchors = TargetPyramid(attributes).Count();
  const TensorType four = PlainType(DType::kFloat32, Shape{pictures, (Size(anchors) * 4).value()});
  return {PlainType(DType::kFloat32, Shape{pictures, anchors}), four, four, four};
}

// The anchors of one image: how each matches, and which are sampled.
class PictureAnchors {
 public:
  PictureAnchors(const Attributes& attributes, const AnchorPyramid& pyramid, const std::vector<PictureTruth>& truth)
      : attributes_(attributes),
        positive_overlap_(attributes.Float("positive_overlap")),
        negative_overlap_(attributes.Float("negative_overlap")),
        truth_(truth) {
    for (const AnchorPyramid::Level& level : pyramid.levels) {
      for (int64_t i = 0; i < level.Count(); ++i) Match(level.At(i));
    }
    // An object that no anchor overlaps enough still has its best ones.
    for (const Best& best : best_) {
      for (const size_t i : best.anchors) labels_[i] = 1;
    }
  }

  // -1: does not count.
  const std::vector<int>& labels() const { return labels_; }
  const PictureTruth& match(size_t i) const { return truth_[matches_[i]]; }
  int64_t Count() const { return std::ssize(labels_) - std::ranges::count(labels_, -1); }

  void Sample(uint64_t key, uint64_t stream) {
    const int64_t batch = attributes_.Int("batch");
    Keep(1, static_cast<int64_t>(attributes_.Float("positive_fraction") * static_cast<double>(batch)), key, stream * 2);
    Keep(0, batch - std::ranges::count(labels_, 1), key, stream * 2 + 1);
  }

 private:
  struct Best {
    double overlap = 0;
    std::vector<size_t> anchors;
  };

  void Match(const Box<double>& anchor) {
    double most = 0;
    size_t match = 0;
    best_.resize(truth_.size());
    for (size_t g = 0; g < truth_.size(); ++g) {
      const Box<double>& box = truth_[g].box;
      // Nearly all pairs lie apart, and finding that out first takes a third of the time.
      if (box[0] >= anchor[2] || box[2] <= anchor[0] || box[1] >= anchor[3] || box[3] <= anchor[1]) continue;
      const double overlap = Overlap(anchor, box, kUnitSide);
      if (!(overlap > 0)) continue;
      if (overlap > most) {
        most = overlap;
        match = g;
      }
      Best& best = best_[g];
      if (overlap > best.overlap) best = {overlap, {}};
      if (overlap == best.overlap) best.anchors.push_back(labels_.size());
    }
    const bool is_positive = most > 0 && most >= positive_overlap_;
    labels_.push_back(is_positive ? 1 : most < negative_overlap_ ? 0 : -1);
    matches_.push_back(match);
  }

  void Keep(int label, int64_t most, uint64_t key, uint64_t stream) {
    std::vector<int64_t> with;
    for (size_t i = 0; i < labels_.size(); ++i) {
      if (labels_[i] == label) with.push_back(static_cast<int64_t>(i));
    }
    const std::vector<int64_t> kept = Sampled(with, std::max<int64_t>(most, 0), key, stream);
    for (const int64_t i : with) labels_[static_cast<size_t>(i)] = -1;
    for (const int64_t i : kept) labels_[static_cast<size_t>(i)] = label;
  }

  const Attributes& attributes_;
  double positive_overlap_;
  double negative_overlap_;
  const std::vector<PictureTruth>& truth_;
  std::vector<int> labels_;      // one an anchor
  std::vector<size_t> matches_;  // likewise, of the truth
  std::vector<Best> best_;       // of each object
};

void PyramidAnchorTargetsReference(const Attributes& attributes, std::span<const RefTensor> in,
                                   std::span<RefTensor> out) {
  constexpr std::array<double, 4> kPlain = {1, 1, 1, 1};
  const AnchorPyramid pyramid = TargetPyramid(attributes);
  const PictureExtent size = PictureExtent::Of(kPyramidAnchorTargetsOp, attributes);
  const int64_t pictures = attributes.Int("pictures");
  const int64_t anchors = pyramid.Count();
  std::vector<std::vector<PictureTruth>> truths;
  std::vector<PictureAnchors> found;
  int64_t sampled = 0;
  truths.reserve(static_cast<size_t>(pictures));  // `found` refers to its elements
  for (int64_t n = 0; n < pictures; ++n) {
    truths.push_back(TruthOfPicture(in[0].values, n, size));
    found.emplace_back(attributes, pyramid, truths.back());
    found.back().Sample(KeyOf(in[1]), StreamOfPicture(attributes, n));
    sampled += found.back().Count();
  }
  for (const size_t k : {1, 2, 3}) std::ranges::fill(out[k].values, 0.0);
  const double weight = static_cast<double>(pictures) / static_cast<double>(std::max<int64_t>(sampled, 1));
  for (int64_t n = 0; n < pictures; ++n) {
    const PictureAnchors& picture = found[static_cast<size_t>(n)];
    for (const AnchorPyramid::Level& level : pyramid.levels) {
      for (int64_t i = 0; i < level.Count(); ++i) {
        const auto at = static_cast<size_t>(level.first + i);
        out[0].values[static_cast<size_t>(n * anchors) + at] = picture.labels()[at];
        if (picture.labels()[at] != 1) continue;
        const std::array<double, 4> code = CodeOfBox(level.At(i), picture.match(at).box, kPlain);
        for (int64_t k = 0; k < 4; ++k) {
          const auto to = static_cast<size_t>((n * anchors + level.first) * 4 + level.Offset(i, k));
          out[1].values[to] = code[static_cast<size_t>(k)];
          out[2].values[to] = 1;
          out[3].values[to] = weight;
        }
      }
    }
  }
}

std::vector<OpCase> PyramidAnchorTargetsCases() {
  const Attributes attributes{
      {"strides", Doubles{4, 8}}, {"anchors", Doubles{-4, -4, 4, 4, -6, -3, 6, 3, -8, -8, 8, 8, -12, -6, 12, 6}},
      {"heights", Ints{5, 3}},    {"widths", Ints{6, 3}},
      {"height", int64_t{20}},    {"width", int64_t{24}},
      {"pictures", int64_t{2}},   {"batch", int64_t{16}},
      {"positive_overlap", 0.4},  {"stream", int64_t{3}}};
  return {{.name = "sampled",
           .inputs = {Float32({1, 1, 40, 8}), {DType::kInt64, Shape{}, {}}},
           .attributes = attributes,
           .low = 0,
           .high = 2,
           .ranges = {{1, 5, 5}}}};
}

}  // namespace

OpDef PyramidAnchorTargetsOp() {
  std::vector<AttributeSpec> specs = PictureAttributes();
  const std::vector<AttributeSpec> own = {
      {"strides", {}, "pixels from cell to cell of each level"},
      {"anchors", {}, "boxes around the first cell of each level, four numbers each"},
      {"heights", {}, "rows of each level"},
      {"widths", {}, "columns of each level"},
      {"pictures", {}, "of the batch"},
      {"positive_overlap", 0.7, "overlap of a positive anchor"},
      {"negative_overlap", 0.3, "overlap below which an anchor is negative"},
      {"batch", int64_t{256}, "anchors sampled of a picture"},
      {"positive_fraction", 0.5, "the largest part of them that is positive"},
      {"stream", {}, "number of the random stream"}};
  specs.insert(specs.end(), own.begin(), own.end());
  return {.name = std::string(kPyramidAnchorTargetsOp),
          .doc =
              "(boxes [1,1,G,8], key) -> labels [N,T] of the T anchors of all levels (1, 0, or -1: not sampled), "
              "targets, inside and outside weights [N,4T].",
          .attributes = specs,
          .infer = InferPyramidAnchorTargets,
          .reference = PyramidAnchorTargetsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMatches,
          .cases = PyramidAnchorTargetsCases};
}

}  // namespace moka
