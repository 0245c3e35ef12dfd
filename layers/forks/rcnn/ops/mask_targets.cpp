// Masks that a region learns to predict (MNC's pylayer.proposal_target_layer): the part of its matched true mask that
// lies in the region, resized to size x size and cut at `threshold`. Boxes are rounded at the original image's scale.
// Background regions have zeros, weight 0 and info -1.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/anchors.h"
#include "layers/forks/rcnn/ops/masks.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferMaskTargets(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("mask_targets", in, 7, 7);
  CheckRois("mask_targets", in[0]);
  const int64_t rows = in[0].shape[0];
  CheckShape("mask_targets", "labels", in[1].shape, Shape{rows}, "one a region");
  CheckShape("mask_targets", "match", in[2].shape, Shape{rows}, "one a region");
  CheckTruth("mask_targets", in[3]);
  const Shape& masks = in[4].shape;
  const Shape& info = in[5].shape;
  const int64_t truths = in[3].shape[0];
  if (masks.rank() != 3 || masks[0] != truths || info.rank() != 2 || info[0] != truths || info[1] < 2) {
    throw Error(ErrorKind::kConfig,
                StrCat("mask_targets: gt_masks must be [G,H,W] and mask_info [G,2] or more for the ", truths,
                       " gt_boxes, found ", masks.ToString(), " and ", info.ToString()));
  }
  CheckImageSize("mask_targets", in[6], 3);
  const int64_t size = attributes.Int("size");
  if (size < 1) throw Error(ErrorKind::kConfig, StrCat("mask_targets: size must be at least 1, found ", size));
  const TensorType mask = PlainType(DType::kFloat32, Shape{rows, 1, size, size});
  return {mask, mask, PlainType(DType::kFloat32, Shape{rows, 12})};
}

// One foreground row.
void WriteMaskTargetsRow(const Attributes& attributes, std::span<const RefTensor> in, size_t m, size_t truth,
                         std::span<RefTensor> out) {
  const double scale = in[6].values[2];
  const Shape& masks = in[4].type.shape;
  const double* info = in[5].values.data() + truth * static_cast<size_t>(in[5].type.shape[1]);
  const auto held = [](double value, int64_t most) {
    return static_cast<int64_t>(std::clamp(std::isnan(value) ? 0.0 : value, 0.0, static_cast<double>(most)));
  };
  const TrueMask mask{in[4].values.data() + truth * static_cast<size_t>(masks[1] * masks[2]), masks[2],
                      held(info[0], masks[1]), held(info[1], masks[2]),
                      RoundedBox(in[3].values.data() + truth * 5, scale)};
  const PixelWindow box = RoundedBox(in[0].values.data() + m * 5 + 1, scale);
  const int64_t size = attributes.Int("size");
  const double threshold = attributes.Float("threshold");
  const auto first = m * static_cast<size_t>(size * size);
  for (int64_t i = 0; i < size * size; ++i) {
    out[1].values[first + static_cast<size_t>(i)] = 1;
    if (box.width() == 0 || box.height() == 0) continue;
    double value = 0;
    VisitTaps(ResizeTaps(i / size, box.height(), size), ResizeTaps(i % size, box.width(), size), box.width(),
              [&](int64_t pixel, double weight) {
                value += weight * mask.At(box.y1 + pixel / box.width(), box.x1 + pixel % box.width());
              });
    out[0].values[first + static_cast<size_t>(i)] = value >= threshold ? 1 : 0;
  }
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const std::array<double, 12> row = {static_cast<double>(truth),
                                      info[0],
                                      info[1],
                                      in[1].values[m],
                                      number(box.x1),
                                      number(box.y1),
                                      number(box.x2),
                                      number(box.y2),
                                      number(mask.box.x1),
                                      number(mask.box.y1),
                                      number(mask.box.x2),
                                      number(mask.box.y2)};
  std::ranges::copy(row, out[2].values.begin() + static_cast<std::ptrdiff_t>(m * 12));
}

void MaskTargetsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  std::ranges::fill(out[1].values, 0.0);
  std::ranges::fill(out[2].values, -1.0);
  for (size_t m = 0; m < in[2].values.size(); ++m) {
    const double match = in[2].values[m];
    if (match >= 0 && match < static_cast<double>(in[3].type.shape[0])) {
      WriteMaskTargetsRow(attributes, in, m, static_cast<size_t>(match), out);
    }
  }
}

std::vector<OpCase> MaskTargetsCases() {
  return {{.name = "small",
           .inputs = {Float32({6, 5}), Float32({6}), Float32({6}), Float32({3, 5}), Float32({3, 7, 8}), Float32({3, 3}),
                      Float32({1, 3})},
           .attributes = {{"size", int64_t{5}}},
           .ranges = {{0, 0, 9}, {1, 0, 3}, {2, -1, 2}, {3, 0, 9}, {4, 0, 1}, {5, 3, 7}, {6, 2, 2}}}};
}

}  // namespace

OpDef MaskTargetsOp() {
  return {
      .name = "mask_targets",
      .doc =
          "(rois [M,5], labels [M], match [M], gt_boxes [G,5], gt_masks [G,H,W], mask_info [G,2..], im_info) -> masks, "
          "weights [M,1,size,size], info [M,12] (true box, its mask's height and width, label, region, true box).",
      .attributes = {{"size", int64_t{21}, "the masks' side"},
                     {"threshold", 0.4, "value from which a resized mask is 1"}},
      .infer = InferMaskTargets,
      .reference = MaskTargetsReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kMasks,
      .cases = MaskTargetsCases};
}

}  // namespace moka
