// How well a detection branch does at the positions that count (MS-CNN's DetectionAccuracy, Cascade R-CNN's
// DetectionGroupAccuracy): the share of right classes, that of the objects alone, and the mean overlap of the objects'
// boxes; -1 where there is nothing to count. Class 0 with an overlap of bg_threshold or more does not count.
#include "graph/op.h"
#include "layers/forks/cascade/ops/geometry.h"
#include "layers/ops/cases.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kBranchAccuracyOp = "branch_accuracy";

std::vector<TensorType> InferBranchAccuracy(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kBranchAccuracyOp, in, 3, 3);
  const int64_t anchors = CheckSides(kBranchAccuracyOp, attributes);
  CheckOffsets(kBranchAccuracyOp, attributes);
  for (size_t i = 0; i < 3; ++i) CheckFloat(kBranchAccuracyOp, "a map", in[i]);
  const Shape& scores = in[0].shape;
  if (scores.rank() != 4 || scores[0] % anchors != 0 || scores[1] < 2) {
    throw Error(ErrorKind::kConfig, StrCat(kBranchAccuracyOp, ": scores must be [images*", anchors,
                                           ",classes,H,W], found ", scores.ToString()));
  }
  CheckShape(kBranchAccuracyOp, "offsets", in[1].shape, scores.With(1, 4), "four numbers a position");
  CheckShape(kBranchAccuracyOp, "labels", in[2].shape, scores.With(1, 6),
             "class, centre, sides and overlap of each position");
  return {PlainType(DType::kFloat32, Shape{2}), PlainType(DType::kFloat32, Shape{1})};
}

// One item's planes.
struct Item {
  const double* scores;
  const double* offsets;
  const double* labels;
  int64_t plane;
  int64_t classes;
};

// Whether fewer than top_k classes come before the label's; of equal scores MS-CNN puts the later class first.
bool IsRight(const Attributes& attributes, const Item& item, int64_t i, int64_t label) {
  const double own = item.scores[label * item.plane + i];
  int64_t before = 0;
  for (int64_t c = 0; c < item.classes; ++c) {
    const double other = item.scores[c * item.plane + i];
    const bool is_first = attributes.Bool("pixels") ? c < label : c > label;
    if (c != label && (other > own || (other == own && is_first))) ++before;
  }
  return before < attributes.Int("top_k");
}

double OverlapAt(const Attributes& attributes, const Branch& branch, const Item& item, int64_t i, int64_t width) {
  const Offsets offsets{attributes.Get<Doubles>("means"), attributes.Get<Doubles>("stds"),
                        attributes.Float("center_bound"), attributes.Float("size_bound")};
  std::array<double, 4> moves{};
  std::array<double, 4> object{};
  for (size_t k = 0; k < 4; ++k) {
    moves[k] = offsets.At(k, item.offsets[static_cast<int64_t>(k) * item.plane + i]);
    object[k] = item.labels[static_cast<int64_t>(k + 1) * item.plane + i];
  }
  const CornerBox box = Moved(branch, i / width, i % width, moves);
  if (!(object[2] > 0 && object[3] > 0)) return 0;
  const double x = object[0] - object[2] / 2;
  const double y = object[1] - object[3] / 2;
  const double last = attributes.Bool("pixels") ? 1 : 0;
  return OverlapBy(OverlapMode::kUnion, {box.x, box.y, box.x + box.width - last, box.y + box.height - last},
                   {x, y, x + object[2] - last, y + object[3] - last},
                   attributes.Bool("pixels") ? kPixelSide : kUnitSide);
}

// A mean; -1 of nothing.
struct Mean {
  double sum = 0;
  double count = 0;
  void Add(double value) {
    sum += value;
    count += 1;
  }
  double value() const { return count > 0 ? sum / count : -1; }
};

void BranchAccuracyReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[0].type.shape;
  const Doubles& widths = attributes.Get<Doubles>("widths");
  const int64_t plane = shape[2] * shape[3];
  Mean all;
  Mean objects;
  Mean overlaps;
  for (int64_t m = 0; m < shape[0]; ++m) {
    const Item item{in[0].values.data() + m * shape[1] * plane, in[1].values.data() + m * 4 * plane,
                    in[2].values.data() + m * 6 * plane, plane, shape[1]};
    const size_t anchor = static_cast<size_t>(m) % widths.size();
    const Branch branch{widths[anchor], attributes.Get<Doubles>("heights")[anchor], attributes.Float("stride")};
    for (int64_t i = 0; i < plane; ++i) {
      if (!(item.labels[i] > -1 && item.labels[i] < 1e6)) continue;
      auto label = static_cast<int64_t>(item.labels[i]);
      if (attributes.Bool("objectness")) label = std::min<int64_t>(label, 1);
      if (label >= shape[1] || (attributes.Bool("has_ignore") && label == attributes.Int("ignore_label"))) continue;
      if (label == 0 && item.labels[5 * plane + i] >= attributes.Float("bg_threshold")) continue;
      const double hit = IsRight(attributes, item, i, label) ? 1 : 0;
      all.Add(hit);
      if (label == 0) continue;
      objects.Add(hit);
      overlaps.Add(OverlapAt(attributes, branch, item, i, shape[3]));
    }
  }
  out[0].values = {all.value(), objects.value()};
  out[1].values = {overlaps.value()};
}

std::vector<OpCase> BranchAccuracyCases() {
  const Attributes attributes{{"widths", Doubles{8, 12}}, {"heights", Doubles{10, 9}}, {"stride", 4.0},
                              {"bg_threshold", 1.5},      {"center_bound", 0.5},       {"size_bound", 0.7}};
  const auto one = [&](const char* name, const Attributes& more) {
    return OpCase{.name = name,
                  .inputs = {Float32({4, 3, 6, 5}), Float32({4, 4, 6, 5}), Float32({4, 6, 6, 5})},
                  .attributes = With(attributes, more),
                  .ranges = {{2, 0, 2}}};
  };
  return {one("top_1", {}), one("objectness", {{"pixels", true}, {"objectness", true}, {"top_k", int64_t{2}}})};
}

}  // namespace

OpDef BranchAccuracyOp() {
  std::vector<AttributeSpec> specs = {{"widths", {}, "each anchor's width in pixels"},
                                      {"heights", {}, "likewise its height"},
                                      {"stride", {}, "pixels from position to position"},
                                      {"center_bound", {}, "the largest dx and dy"},
                                      {"size_bound", {}, "the largest dw and dh"},
                                      {"bg_threshold", 0.5, "overlap from which class 0 does not count"},
                                      {"top_k", int64_t{1}, "right if the label is among the best k"},
                                      {"objectness", false, "whether every object is of class 1"},
                                      {"has_ignore", false, "whether ignore_label is used"},
                                      {"ignore_label", int64_t{0}, "a class that does not count"},
                                      {"pixels", false, "whether boxes hold their last pixel"}};
  for (AttributeSpec& spec : OffsetAttributes()) specs.push_back(std::move(spec));
  return {
      .name = "branch_accuracy",
      .doc =
          "(scores [images*A,classes,H,W], offsets [images*A,4,H,W], labels [images*A,6,H,W]) -> the share of right "
          "classes and that of objects alone [2], the mean overlap of the objects' boxes [1]; -1: none.",
      .attributes = std::move(specs),
      .infer = InferBranchAccuracy,
      .reference = BranchAccuracyReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kEvaluates,
      .cases = BranchAccuracyCases};
}

}  // namespace moka
