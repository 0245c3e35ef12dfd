// The regions a detector learns from and their targets (ProposalTarget of MS-CNN and Cascade R-CNN; for one image and
// py-faster-rcnn's rules see proposal_targets). Candidates are the proposals and, with `append`, the objects' own
// boxes, of all images together. Foreground overlaps an object that is not ignored by fg or more, background lies in
// [bg_low, bg_high); at most round(rows * fg_fraction) of the first are taken, then background as far as there are
// rows, then with `pickup` candidates of any other overlap, as background, in order. What is still left become random
// boxes that overlap no object by fg: every row in MS-CNN, one row if there is none at all in Cascade R-CNN. Other rows
// are padding, -1 in every column. rows -1 takes all foreground and background.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kRegionTargetsOp = "region_targets";
constexpr int64_t kLeastSide = 32;  // of a random box, pixels
constexpr int64_t kTries = 100;     // to find one

int64_t RegionTargetsColumns(const Attributes& attributes) {
  return attributes.Bool("class_aware") ? (Size(attributes.Int("classes")) * 4).value() : 8;
}

std::vector<TensorType> InferRegionTargets(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kRegionTargetsOp, in, 3, 3);
  CheckOffsets(kRegionTargetsOp, attributes);
  CheckRows(kRegionTargetsOp, "rois", in[0], 5, 5);
  CheckRows(kRegionTargetsOp, "objects", in[1], 7, 8);
  CheckShape(kRegionTargetsOp, "key", in[2].shape, Shape{}, "a scalar");
  if (attributes.Int("classes") < 2) {
    throw Error(ErrorKind::kConfig,
                StrCat(kRegionTargetsOp, ": classes must be at least 2, found ", attributes.Int("classes")));
  }
  const int64_t objects = attributes.Bool("append") ? in[1].shape[0] : 0;
  const int64_t all = (Size(in[0].shape[0]) + objects).value();
  const int64_t rows = attributes.Int("rows") == -1 ? all : attributes.Int("rows");
  if (rows < 1)
    throw Error(ErrorKind::kConfig, StrCat(kRegionTargetsOp, ": rows must be -1 or at least 1, found ", rows));
  const auto of = [&](int64_t columns) { return PlainType(DType::kFloat32, Shape{rows, columns}); };
  const TensorType offsets = of(RegionTargetsColumns(attributes));
  return {of(5), of(1), offsets, offsets, offsets, of(6), of(1)};
}

struct Object {
  double image;
  Box<double> box;
  double label;
  bool is_ignored;
};

struct RegionTargetsRegion {
  double image = 0;
  Box<double> box{};
  double overlap = 0;
  int64_t object = -1;
};

// Overlaps: MS-CNN counts fractions of a pixel, Cascade R-CNN does not.
double RegionTargetsShared(const Attributes& attributes, const Box<double>& a, const Box<double>& b) {
  return attributes.Bool("pixels") ? OverlapBy(OverlapMode::kUnion, a, b, kPixelSide) : Overlap(a, b, kPixelSide);
}

class RegionTargetsCandidates {
 public:
  RegionTargetsCandidates(const Attributes& attributes, std::span<const RefTensor> in) : attributes_(attributes) {
    const int64_t columns = in[1].type.shape.Count() / std::max<int64_t>(in[1].type.shape[0], 1);
    for (int64_t g = 0; g < in[1].type.shape[0]; ++g) {
      const double* row = in[1].values.data() + g * columns;
      if (row[0] >= 0 && row[5] > 0) objects_.push_back({row[0], BoxAt(row + 1), row[5], row[6] != 0});
    }
    for (int64_t r = 0; r < in[0].type.shape[0]; ++r) {
      const double* row = in[0].values.data() + r * 5;
      if (row[0] >= 0) Add(row[0], BoxAt(row + 1));
    }
    if (!attributes.Bool("append")) return;
    for (const Object& object : objects_) Add(object.image, object.box);
  }

  const RegionTargetsRegion& at(int64_t i) const { return regions_[static_cast<size_t>(i)]; }
  const Object& ObjectOf(const RegionTargetsRegion& region) const {
    return objects_[static_cast<size_t>(region.object)];
  }
  int64_t count() const { return static_cast<int64_t>(regions_.size()); }
  int64_t Add(double image, const Box<double>& box) {
    RegionTargetsRegion region{.image = image, .box = box};
    for (size_t g = 0; g < objects_.size(); ++g) {
      if (objects_[g].image != image) continue;
      const double overlap = RegionTargetsShared(attributes_, box, objects_[g].box);
      if (region.object >= 0 && overlap <= region.overlap) continue;
      region.overlap = overlap;
      region.object = static_cast<int64_t>(g);
    }
    regions_.push_back(region);
    return count() - 1;
  }

 private:
  const Attributes& attributes_;
  std::vector<Object> objects_;
  std::vector<RegionTargetsRegion> regions_;
};

struct RegionTargetsSample {
  std::vector<int64_t> foreground;
  std::vector<int64_t> background;
};

// Random boxes inside the image.
class RandomBoxes {
 public:
  RandomBoxes(const Attributes& attributes, uint64_t key)
      : attributes_(attributes), key_(key), stream_(static_cast<uint64_t>(attributes.Int("stream")) * 4 + 3) {}

  // One that overlaps no object by fg; nothing if none is found.
  void AddTo(RegionTargetsCandidates& candidates, std::vector<int64_t>& background) {
    const int64_t width = attributes_.Int("image_width");
    const int64_t height = attributes_.Int("image_height");
    if (width <= kLeastSide || height <= kLeastSide) return;
    for (int64_t n = 0; n < kTries; ++n) {
      const auto image = static_cast<double>(Below(attributes_.Int("images")));
      const int64_t x = Below(width - kLeastSide);
      const int64_t y = Below(height - kLeastSide);
      const int64_t w = std::max(Below(width - x), kLeastSide);
      const int64_t h = std::max(Below(height - y), kLeastSide);
      const Box<double> box = {static_cast<double>(x), static_cast<double>(y), static_cast<double>(x + w - 1),
                               static_cast<double>(y + h - 1)};
      const int64_t i = candidates.Add(image, box);
      if (candidates.at(i).overlap >= attributes_.Float("fg")) continue;
      background.push_back(i);
      return;
    }
  }

 private:
  int64_t Below(int64_t end) { return RandomWord(key_, stream_, next_++) % std::max<int64_t>(end, 1); }

  const Attributes& attributes_;
  uint64_t key_;
  uint64_t stream_;
  uint64_t next_ = 0;
};

RegionTargetsSample DrawRegionTargets(const Attributes& attributes, RegionTargetsCandidates& candidates, uint64_t key) {
  RegionTargetsSample sample;
  std::vector<int64_t> others;
  for (int64_t i = 0; i < candidates.count(); ++i) {
    const RegionTargetsRegion& region = candidates.at(i);
    if (region.object >= 0 && region.overlap >= attributes.Float("fg")) {
      if (!candidates.ObjectOf(region).is_ignored) sample.foreground.push_back(i);
    } else if (region.overlap >= attributes.Float("bg_low") && region.overlap < attributes.Float("bg_high")) {
      sample.background.push_back(i);
    } else {
      others.push_back(i);
    }
  }
  const int64_t rows = attributes.Int("rows");
  if (rows != -1) {
    const uint64_t stream = static_cast<uint64_t>(attributes.Int("stream")) * 4;
    const auto most = static_cast<int64_t>(std::round(attributes.Float("fg_fraction") * static_cast<double>(rows)));
    sample.foreground = Sampled(std::move(sample.foreground), most, key, stream + 1);
    const int64_t left = rows - static_cast<int64_t>(sample.foreground.size());
    sample.background = Sampled(std::move(sample.background), left, key, stream + 2);
    for (size_t i = 0; attributes.Bool("pickup") && i < others.size(); ++i) {
      if (static_cast<int64_t>(sample.background.size()) < left) sample.background.push_back(others[i]);
    }
  }
  // Cascade R-CNN needs one row at least, MS-CNN all of them.
  RandomBoxes boxes(attributes, key);
  const auto taken = static_cast<int64_t>(sample.foreground.size() + sample.background.size());
  const int64_t wanted = attributes.Bool("pixels") ? 1 : rows;
  for (int64_t n = taken; n < wanted; ++n) boxes.AddTo(candidates, sample.background);
  return sample;
}

// The row of a region that is taken.
void WriteRegionTargetsRow(const Attributes& attributes, const RegionTargetsCandidates& candidates, int64_t i,
                           bool is_foreground, int64_t m, std::span<RefTensor> out) {
  const RegionTargetsRegion& region = candidates.at(i);
  for (size_t k = 1; k < 7; ++k) {
    const int64_t columns = out[k].type.shape[1];
    std::fill_n(out[k].values.begin() + m * columns, columns, 0.0);
  }
  double* roi = out[0].values.data() + m * 5;
  roi[0] = region.image;
  std::ranges::copy(region.box, roi + 1);
  const auto at = static_cast<size_t>(m);
  out[6].values[at] = 1;
  if (!is_foreground) return;
  const Object& object = candidates.ObjectOf(region);
  out[1].values[at] = object.label;
  if (attributes.Bool("overlap_weighted")) out[6].values[at] = region.overlap;
  double* match = out[5].values.data() + m * 6;
  match[0] = object.label;
  std::ranges::copy(object.box, match + 1);
  match[5] = region.overlap;
  const double last = attributes.Bool("class_aware") ? static_cast<double>(attributes.Int("classes") - 1) : 1;
  const auto group = static_cast<int64_t>(std::min(object.label, last));
  const std::array<double, 4> move = MoveBetween(region.box, object.box);
  const bool learns = region.overlap >= attributes.Float("box_low") && region.overlap <= attributes.Float("box_high");
  for (size_t k = 0; k < 4; ++k) {
    const size_t column = static_cast<size_t>(m * RegionTargetsColumns(attributes) + group * 4) + k;
    out[2].values[column] = (move[k] - attributes.Get<Doubles>("means")[k]) / attributes.Get<Doubles>("stds")[k];
    out[3].values[column] = learns ? 1 : 0;
    out[4].values[column] = learns ? 1 : 0;
  }
}

// Foreground as a group weighs fg_fraction of the rows, background the rest.
void BalanceWeights(const Attributes& attributes, int64_t foreground, int64_t all, std::vector<double>& weights) {
  double sums[2] = {0, 0};
  for (int64_t m = 0; m < all; ++m) sums[m < foreground ? 1 : 0] += weights[static_cast<size_t>(m)];
  if (sums[1] == 0) return;
  const double share = attributes.Float("fg_fraction");
  for (int64_t m = 0; m < all; ++m) {
    const bool is_foreground = m < foreground;
    weights[static_cast<size_t>(m)] *=
        (is_foreground ? share : 1 - share) * static_cast<double>(all) / sums[is_foreground ? 1 : 0];
  }
}

void RegionTargetsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  for (RefTensor& y : out) std::ranges::fill(y.values, kPaddingRow);
  RegionTargetsCandidates candidates(attributes, in);
  const RegionTargetsSample sample = DrawRegionTargets(attributes, candidates, KeyOf(in[2]));
  int64_t m = 0;
  const int64_t rows = out[0].type.shape[0];
  for (const int64_t i : sample.foreground) {
    if (m < rows) WriteRegionTargetsRow(attributes, candidates, i, true, m++, out);
  }
  const int64_t foreground = m;
  for (const int64_t i : sample.background) {
    if (m < rows) WriteRegionTargetsRow(attributes, candidates, i, false, m++, out);
  }
  BalanceWeights(attributes, foreground, m, out[6].values);
}

std::vector<OpCase> RegionTargetsCases() {
  const Attributes attributes{
      {"rows", int64_t{8}}, {"classes", int64_t{3}}, {"images", int64_t{2}}, {"bg_low", 0.05}, {"stream", int64_t{1}}};
  const auto one = [&](const char* name, int64_t columns, const Attributes& more) {
    return OpCase{.name = name,
                  .inputs = {Float32({30, 5}), Float32({6, columns}), {DType::kInt64, Shape{}, {}}},
                  .attributes = With(attributes, more),
                  .ranges = {{0, -1, 9}, {1, 0, 2}, {2, 5, 5}}};
  };
  return {one("sampled", 7, {{"image_width", int64_t{64}}, {"image_height", int64_t{48}}, {"overlap_weighted", true}}),
          one("all", 8, {{"pixels", true}, {"rows", int64_t{-1}}, {"class_aware", false}}),
          one("no_objects_of_their_own", 8, {{"pixels", true}, {"append", false}, {"pickup", false}})};
}

}  // namespace

OpDef RegionTargetsOp() {
  std::vector<AttributeSpec> specs = {
      {"rows", {}, "regions taken; -1: all"},
      {"classes", {}, "classes with the background"},
      {"class_aware", true, "whether each class has its offsets; otherwise class 1 stands for all"},
      {"fg_fraction", 0.25, "the largest part of foreground"},
      {"fg", 0.5, "the least overlap of foreground"},
      {"bg_low", 0.1, "the least overlap of background"},
      {"bg_high", 0.5, "overlap below which background lies"},
      {"box_low", 0.0, "the least overlap with which foreground learns its offsets"},
      {"box_high", 10.0, "the largest"},
      {"append", true, "whether the objects' boxes are candidates"},
      {"pickup", true, "whether regions of other overlaps fill up the background"},
      {"images", int64_t{1}, "images of the batch, for random boxes"},
      {"image_width", int64_t{0}, "pixels random boxes lie in; at most 32: none"},
      {"image_height", int64_t{0}, "likewise"},
      {"overlap_weighted", false, "whether the weights of foreground are its overlaps"},
      {"pixels", false, "Cascade R-CNN's rules in place of MS-CNN's"},
      {"stream", {}, "number of the random stream"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {
      .name = "region_targets",
      .doc =
          "(rois [R,5], objects [G,7 or 8] of (image, x1, y1, x2, y2, class, ignored, ..), key) -> rois [rows,5], "
          "labels [rows,1], offsets, inside and outside weights [rows,4*classes or 8], objects [rows,6] (class, x1, "
          "y1, x2, y2, overlap), weights [rows,1]; rows left over are -1.",
      .attributes = std::move(specs),
      .infer = InferRegionTargets,
      .reference = RegionTargetsReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kMatches,
      .cases = RegionTargetsCases};
}

}  // namespace moka
