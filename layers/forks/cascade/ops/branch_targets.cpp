// The targets from which a detection branch learns at each position of its map (Cai et al., MS-CNN 2016, Cascade R-CNN
// 2018): which positions count, with which weight, and the offsets to their objects. Labels hold at each position the
// class (0: background), the object's centre, width and height, and the overlap. Positive: a class above 0; negative:
// class 0 with an overlap below bg_threshold. The two ways of taking a sample:
//   pixels false (MS-CNN)  every positive of an image counts. "random": bg_multiple negatives a positive (4 a class at
//                          least), drawn with repeats among all positions, so fewer; "bootstrap": for each class the
//                          negatives that score highest, bg_multiple for each of its positives and at least 4;
//                          "mixture": half of each; anything else: all negatives.
//   pixels true (Cascade)  `batch` positions an image, 1 / (1 + bg_multiple) of them positive at most, or without a
//                          batch every positive and bg_multiple negatives for each, at least min_negatives. Negatives
//                          are drawn at random, or those of the least background probability, or half of each.
// The class weights are divided by how many positions count, the boxes' by four for each positive.
#include <cfloat>

#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kBranchTargetsOp = "branch_targets";

std::vector<TensorType> InferBranchTargets(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kBranchTargetsOp, in, 3, 3);
  const int64_t anchors = CheckSides(kBranchTargetsOp, attributes);
  CheckOffsets(kBranchTargetsOp, attributes);
  CheckFloat(kBranchTargetsOp, "scores", in[0]);
  CheckFloat(kBranchTargetsOp, "labels", in[1]);
  CheckShape(kBranchTargetsOp, "key", in[2].shape, Shape{}, "a scalar");
  const Shape& scores = in[0].shape;
  if (scores.rank() != 4 || scores[0] % anchors != 0 || scores[1] < 2) {
    throw Error(ErrorKind::kConfig, StrCat(kBranchTargetsOp, ": scores must be [images*", anchors,
                                           ",classes,H,W], found ", scores.ToString()));
  }
  CheckShape(kBranchTargetsOp, "labels", in[1].shape, scores.With(1, 6),
             "class, centre, sides and overlap of each position");
  const TensorType one = PlainType(DType::kFloat32, scores.With(1, 1));
  return {one, one, PlainType(DType::kFloat32, scores.With(1, 4)), one};
}

// Reads the inputs; positions are numbered through all items, item by item.
class Maps {
 public:
  Maps(const Attributes& attributes, std::span<const RefTensor> in)
      : scores_(in[0].values), labels_(in[1].values), shape_(in[0].type.shape) {
    plane_ = shape_[2] * shape_[3];
    classes_ = shape_[1];
    objectness_ = attributes.Bool("objectness");
    background_ = attributes.Float("bg_threshold");
  }

  int64_t plane() const { return plane_; }
  int64_t width() const { return shape_[3]; }
  int64_t classes() const { return classes_; }
  int64_t items() const { return shape_[0]; }
  double Label(int64_t i, int64_t channel) const { return labels_[At(i, channel, 6)]; }
  double Score(int64_t i, int64_t c) const { return scores_[At(i, c, classes_)]; }
  // 0: background; below: no class at all, which never counts.
  int64_t Class(int64_t i) const {
    const double label = Label(i, 0);
    if (!(label > -1 && label < 1e6)) return -1;
    const auto c = static_cast<int64_t>(label);
    return objectness_ ? std::min<int64_t>(c, 1) : c < classes_ ? c : -1;
  }
  bool IsNegative(int64_t i) const { return Class(i) == 0 && Label(i, 5) < background_; }
  double BackgroundProbability(int64_t i) const {
    double max = Score(i, 0);
    for (int64_t c = 1; c < classes_; ++c) max = std::max(max, Score(i, c));
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += std::exp(Score(i, c) - max);
    return std::max(std::exp(Score(i, 0) - max) / sum, static_cast<double>(FLT_MIN));
  }

 private:
  size_t At(int64_t i, int64_t channel, int64_t channels) const {
    return static_cast<size_t>((i / plane_ * channels + channel) * plane_ + i % plane_);
  }

  const std::vector<double>& scores_;
  const std::vector<double>& labels_;
  Shape shape_;
  int64_t plane_ = 0;
  int64_t classes_ = 0;
  bool objectness_ = false;
  double background_ = 0;
};

// Chooses the positions of one image, [begin, end).
class Sampler {
 public:
  Sampler(const Attributes& attributes, const Maps& maps, uint64_t key, std::vector<char>& keep)
      : attributes_(attributes),
        maps_(maps),
        key_(key),
        stream_(static_cast<uint64_t>(attributes.Int("stream")) * 4),
        mining_(attributes.String("mining")),
        multiple_(attributes.Float("bg_multiple")),
        keep_(keep) {}

  void Take(int64_t begin, int64_t end) {
    std::vector<int64_t> positives;
    std::vector<int64_t> negatives;
    for (int64_t i = begin; i < end; ++i) {
      if (maps_.Class(i) > 0) positives.push_back(i);
      if (maps_.IsNegative(i)) negatives.push_back(i);
    }
    if (attributes_.Bool("pixels")) return TakeBatch(std::move(positives), negatives);
    Keep(positives);
    const bool is_mixture = mining_ == "mixture";
    if (mining_ == "random" || is_mixture) DrawNegatives(begin, end, positives, is_mixture ? 0.5 : 1);
    if (mining_ == "bootstrap" || is_mixture) HardNegatives(positives, negatives, is_mixture ? 0.5 : 1);
    if (mining_ != "random" && mining_ != "bootstrap" && !is_mixture) Keep(negatives);
  }

 private:
  void Keep(const std::vector<int64_t>& positions) {
    for (const int64_t i : positions) keep_[static_cast<size_t>(i)] = 1;
  }

  void DrawNegatives(int64_t begin, int64_t end, const std::vector<int64_t>& positives, double part) {
    const auto wanted = static_cast<int64_t>(static_cast<double>(positives.size()) * multiple_ * part);
    const int64_t draws = std::max<int64_t>(wanted, 4 * (maps_.classes() - 1));
    for (int64_t n = 0; n < draws; ++n) {
      const int64_t i = begin + RandomWord(key_, stream_, static_cast<uint64_t>(begin + n)) % (end - begin);
      if (maps_.IsNegative(i)) keep_[static_cast<size_t>(i)] = 1;
    }
  }

  void HardNegatives(const std::vector<int64_t>& positives, const std::vector<int64_t>& negatives, double part) {
    for (int64_t c = 1; c < maps_.classes(); ++c) {
      const auto of_class = std::ranges::count_if(positives, [&](int64_t i) { return maps_.Class(i) == c; });
      const auto wanted = static_cast<int64_t>(static_cast<double>(of_class) * multiple_ * part);
      KeepHighest(negatives, std::max<int64_t>(wanted, 4), [&](int64_t i) { return maps_.Score(i, c); });
    }
  }

  template <class Value>
  std::vector<int64_t> Highest(const std::vector<int64_t>& positions, int64_t count, Value&& value) const {
    std::vector<double> values;
    values.reserve(positions.size());
    for (const int64_t i : positions) values.push_back(value(i));
    std::vector<int64_t> order = FallingOrder<double>(values, std::max<int64_t>(count, 0));
    for (int64_t& i : order) i = positions[static_cast<size_t>(i)];
    return order;
  }
  template <class Value>
  void KeepHighest(const std::vector<int64_t>& positions, int64_t count, Value&& value) {
    Keep(Highest(positions, count, value));
  }

  void TakeBatch(std::vector<int64_t> positives, const std::vector<int64_t>& negatives) {
    const auto found = static_cast<int64_t>(positives.size());
    const int64_t batch = attributes_.Int("batch");
    int64_t most = found;
    int64_t negative =
        std::max(static_cast<int64_t>(static_cast<double>(found) * multiple_), attributes_.Int("min_negatives"));
    if (batch > 0) {
      most = std::min(static_cast<int64_t>(std::round(static_cast<double>(batch) / (1 + multiple_))), found);
      negative = batch - most;
    }
    Keep(Sampled(std::move(positives), most, key_, stream_ + 1));
    const auto hardest = [&](int64_t i) { return -maps_.BackgroundProbability(i); };
    if (static_cast<int64_t>(negatives.size()) <= negative) return Keep(negatives);
    if (mining_ == "random") return Keep(Sampled(negatives, negative, key_, stream_ + 2));
    if (mining_ == "bootstrap") return KeepHighest(negatives, negative, hardest);
    const auto hard = static_cast<int64_t>(std::round(static_cast<double>(negative) * 0.5));
    KeepHighest(negatives, hard, hardest);
    std::vector<int64_t> others;
    for (const int64_t i : negatives) {
      if (keep_[static_cast<size_t>(i)] == 0) others.push_back(i);
    }
    Keep(Sampled(std::move(others), negative - hard, key_, stream_ + 2));
  }

  const Attributes& attributes_;
  const Maps& maps_;
  uint64_t key_;
  uint64_t stream_;
  std::string mining_;
  double multiple_;
  std::vector<char>& keep_;
};

// The weights of positives and negatives as groups; overlaps weigh positives first if asked for.
std::vector<double> Weights(const Attributes& attributes, const Maps& maps, const std::vector<char>& keep) {
  std::vector<double> weights(keep.size(), 1.0);
  double sums[2] = {0, 0};  // of negatives, positives
  double count = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (keep[i] == 0) continue;
    const bool is_positive = maps.Class(at) > 0;
    if (is_positive && attributes.Bool("overlap_weighted")) weights[i] = maps.Label(at, 5);
    sums[is_positive ? 1 : 0] += weights[i];
    count += 1;
  }
  if (!attributes.Bool("balanced")) return weights;
  const double share = 1 / (1 + attributes.Float("bg_multiple"));
  for (size_t i = 0; i < keep.size(); ++i) {
    const bool is_positive = maps.Class(static_cast<int64_t>(i)) > 0;
    const double sum = sums[is_positive ? 1 : 0];
    // MS-CNN leaves negatives alone when there is no positive.
    const bool is_scaled = sum != 0 && (is_positive || attributes.Bool("pixels") || sums[1] != 0);
    if (keep[i] != 0 && is_scaled) weights[i] *= (is_positive ? share : 1 - share) * count / sum;
  }
  return weights;
}

void BranchTargetsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Maps maps(attributes, in);
  const auto anchors = static_cast<int64_t>(attributes.Get<Doubles>("widths").size());
  std::vector<char> keep(out[0].values.size(), 0);
  Sampler sampler(attributes, maps, KeyOf(in[2]), keep);
  const int64_t step = anchors * maps.plane();
  for (int64_t begin = 0; begin < static_cast<int64_t>(keep.size()); begin += step) sampler.Take(begin, begin + step);
  const std::vector<double> weights = Weights(attributes, maps, keep);
  const auto counts = [&](int64_t i) {
    return !attributes.Bool("has_ignore") || maps.Class(i) != attributes.Int("ignore_label");
  };
  double all = 0;
  double positive = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (keep[i] != 0 && counts(at)) (maps.Class(at) > 0 ? positive : all) += 1;
  }
  all += positive;
  for (RefTensor& y : out) std::ranges::fill(y.values, 0.0);
  std::ranges::fill(out[0].values, -1.0);
  const Doubles& means = attributes.Get<Doubles>("means");
  const Doubles& stds = attributes.Get<Doubles>("stds");
  for (size_t i = 0; i < keep.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (keep[i] == 0 || !counts(at)) continue;
    out[0].values[i] = static_cast<double>(maps.Class(at));
    out[1].values[i] = weights[i] / all;
    if (maps.Class(at) <= 0) continue;
    const auto anchor = static_cast<size_t>(at / maps.plane() % anchors);
    const Branch branch{attributes.Get<Doubles>("widths")[anchor], attributes.Get<Doubles>("heights")[anchor],
                        attributes.Float("stride")};
    const int64_t place = at % maps.plane();
    const std::array<double, 4> offsets = {(maps.Label(at, 1) - branch.CenterX(place % maps.width())) / branch.width,
                                           (maps.Label(at, 2) - branch.CenterY(place / maps.width())) / branch.height,
                                           std::log(std::max(maps.Label(at, 3), 2.0) / branch.width),
                                           std::log(std::max(maps.Label(at, 4), 2.0) / branch.height)};
    const int64_t item = at / maps.plane();
    for (size_t k = 0; k < 4; ++k) {
      out[2].values[static_cast<size_t>((item * 4 + static_cast<int64_t>(k)) * maps.plane() + place)] =
          (offsets[k] - means[k]) / stds[k];
    }
    out[3].values[i] = 1 / (4 * positive);
  }
}

std::vector<OpCase> BranchTargetsCases() {
  const Attributes attributes{{"widths", Doubles{8, 12}}, {"heights", Doubles{10, 9}}, {"stride", 4.0},
                              {"bg_threshold", 1.5},      {"bg_multiple", 2.0},        {"stream", int64_t{4}}};
  const auto one = [&](const char* name, const Attributes& more) {
    return OpCase{.name = name,
                  .inputs = {Float32({4, 3, 6, 5}), Float32({4, 6, 6, 5}), {DType::kInt64, Shape{}, {}}},
                  .attributes = With(attributes, more),
                  .ranges = {{1, 0, 2}, {2, 7, 7}}};
  };
  const Attributes cascade{{"pixels", true}, {"objectness", true}, {"batch", int64_t{16}}};
  return {one("random", {}),
          one("bootstrap", {{"mining", std::string("bootstrap")}, {"balanced", true}, {"overlap_weighted", true}}),
          one("all", {{"mining", std::string("all")}, {"has_ignore", true}, {"ignore_label", int64_t{2}}}),
          one("batch", cascade),
          one("mixture", With(cascade, {{"mining", std::string("mixture")}, {"balanced", true}}))};
}

}  // namespace

OpDef BranchTargetsOp() {
  std::vector<AttributeSpec> specs = {
      {"widths", {}, "each anchor's width in pixels"},
      {"heights", {}, "likewise its height"},
      {"stride", {}, "pixels from position to position"},
      {"bg_threshold", 0.5, "overlap below which class 0 is a negative"},
      {"bg_multiple", 4.0, "negatives a positive"},
      {"mining", std::string("random"), "which negatives: random, bootstrap, mixture"},
      {"batch", int64_t{-1}, "pixels: positions of an image; below 1: as many as bg_multiple gives"},
      {"min_negatives", int64_t{5}, "pixels, without a batch: the least negatives of an image"},
      {"objectness", false, "whether every object is of class 1"},
      {"overlap_weighted", false, "whether a positive weighs as much as its overlap"},
      {"balanced", false, "whether negatives as a group weigh bg_multiple times the positives"},
      {"has_ignore", false, "whether ignore_label is used"},
      {"ignore_label", int64_t{0}, "a class that does not count"},
      {"pixels", false, "Cascade R-CNN's sample in place of MS-CNN's"},
      {"stream", {}, "number of the random stream"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {.name = "branch_targets",
          .doc =
              "(scores [images*A,classes,H,W], labels [images*A,6,H,W], key) -> classes (-1: does not count) and their "
              "weights [images*A,1,H,W], the boxes' offsets [images*A,4,H,W] and their weights [images*A,1,H,W].",
          .attributes = std::move(specs),
          .infer = InferBranchTargets,
          .reference = BranchTargetsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMatches,
          .cases = BranchTargetsCases};
}

}  // namespace moka
