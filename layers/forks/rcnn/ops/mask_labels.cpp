// The class of each predicted mask (MNC's pylayer.mask_layer): resized to its region and cut at `threshold`, it has the
// region's class if it overlaps the true mask by `overlap` or more, else class 0. A region of more than 2^24 pixels is
// none.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/masks.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

std::vector<TensorType> InferMaskLabels(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("mask_labels", in, 3, 3);
  CheckFloat("mask_labels", "masks", in[0]);
  const Shape& masks = in[0].shape;
  const int64_t pixels = masks.rank() < 2 ? 0 : masks.Count(1, masks.rank());
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(pixels))));
  if (pixels < 1 || side * side != pixels) {
    throw Error(ErrorKind::kConfig, StrCat("mask_labels: masks must be [M,size*size], found ", masks.ToString()));
  }
  if (in[1].shape.rank() != 3) {
    throw Error(ErrorKind::kConfig, StrCat("mask_labels: gt_masks must be [G,H,W], found ", in[1].shape.ToString()));
  }
  CheckShape("mask_labels", "info", in[2].shape, Shape{masks[0], 12}, "one row a mask");
  return {PlainType(DType::kFloat32, Shape{masks[0], 1})};
}

// Intersection over union of a predicted mask [side, side] lying in `box` and the true one.
double MaskOverlap(const double* predicted, int64_t side, double threshold, const PixelWindow& box,
                   const TrueMask& truth) {
  double both = 0;
  double own = 0;
  for (int64_t y = 0; y < box.height(); ++y) {
    const Taps<double> row = ResizeTaps(y, side, box.height());
    for (int64_t x = 0; x < box.width(); ++x) {
      double value = 0;
      VisitTaps(row, ResizeTaps(x, side, box.width()), side,
                [&](int64_t pixel, double weight) { value += weight * predicted[pixel]; });
      if (!(value >= threshold)) continue;
      own += 1;
      both += truth.At(box.y1 + y, box.x1 + x) != 0 ? 1 : 0;
    }
  }
  double other = 0;
  for (int64_t y = 0; y < truth.height; ++y) {
    for (int64_t x = 0; x < truth.width; ++x) other += truth.pixels[y * truth.columns + x];
  }
  const double either = own + other - both;
  return either < 1 ? 0 : both / either;
}

void MaskLabelsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& gt_masks = in[1].type.shape;
  const Shape& masks = in[0].type.shape;
  const int64_t pixels = masks.Count(1, masks.rank());
  const auto side = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(pixels))));
  for (int64_t m = 0; m < masks[0]; ++m) {
    const double* info = in[2].values.data() + m * 12;
    double& label = out[0].values[static_cast<size_t>(m)];
    label = 0;
    if (!(info[0] >= 0 && info[0] < static_cast<double>(gt_masks[0]))) continue;
    const auto held = [](double value, int64_t most) {
      return static_cast<int64_t>(std::clamp(std::isnan(value) ? 0.0 : value, 0.0, static_cast<double>(most)));
    };
    const TrueMask truth{in[1].values.data() + static_cast<int64_t>(info[0]) * gt_masks[1] * gt_masks[2], gt_masks[2],
                         held(info[1], gt_masks[1]), held(info[2], gt_masks[2]), RoundedBox(info + 8, 1)};
    const PixelWindow box = RoundedBox(info + 4, 1);
    if (box.width() * box.height() > (1 << 24)) continue;
    const double overlap =
        MaskOverlap(in[0].values.data() + m * pixels, side, attributes.Float("threshold"), box, truth);
    if (overlap >= attributes.Float("overlap")) label = info[3];
  }
}

std::vector<OpCase> MaskLabelsCases() {
  return {{.name = "small",
           .inputs = {Float32({8, 25}), Float32({3, 7, 8}), Float32({8, 12})},
           .attributes = {},
           .low = 0,
           .high = 1,
           .ranges = {{1, 0, 1}, {2, -1, 7}}}};
}

}  // namespace

OpDef MaskLabelsOp() {
  return {.name = "mask_labels",
          .doc = "(masks [M,size*size], gt_masks [G,H,W], info [M,12]) -> labels [M,1]: the class of each mask.",
          .attributes = {{"threshold", 0.4, "value from which a predicted pixel belongs to the mask"},
                         {"overlap", 0.5, "overlap with the true mask from which a mask has its class"}},
          .infer = InferMaskLabels,
          .reference = MaskLabelsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMasks,
          .cases = MaskLabelsCases};
}

}  // namespace moka
