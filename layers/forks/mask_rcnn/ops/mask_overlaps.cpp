// How detected masks overlap the true ones: all that COCO's precision of masks needs to know of an image.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"
#include "layers/ops/paste.h"

namespace moka {
namespace {

constexpr std::string_view kMaskOverlapsOp = "mask_overlaps";

struct OverlapSizes {
  int64_t pictures;
  int64_t detections;  // of an image
  int64_t objects;     // of an image
  int64_t mask;        // rows and columns of a mask
};

// Errors: kConfig.
OverlapSizes OverlapSizesOf(const Shape& rows, const Shape& masks, const Shape& truth, const Shape& instances) {
  const auto fail = [&](std::string_view rule) {
    throw Error(ErrorKind::kConfig, StrCat(kMaskOverlapsOp, ": ", rule, ", found ", rows.ToString(), ", ",
                                           masks.ToString(), ", ", truth.ToString(), " and ", instances.ToString()));
  };
  if (instances.rank() != 4 || instances[1] != 1) fail("instances must be [N,1,H,W]");
  if (rows.rank() != 4 || rows[0] != 1 || rows[1] != 1 || rows[3] != 7 || rows[2] % instances[0] != 0) {
    fail("detections must be [1,1,N*K,7]");
  }
  if (masks.rank() != 4 || masks[0] != rows[2] || masks[1] != 1 || masks[2] != masks[3]) {
    fail("masks must be [N*K,1,S,S]");
  }
  if (truth[2] % instances[0] != 0) fail("boxes must be [1,1,N*G,8]");
  return {instances[0], rows[2] / instances[0], truth[2] / instances[0], masks[2]};
}

std::vector<TensorType> InferMaskOverlaps(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount(kMaskOverlapsOp, in, 4, 4);
  for (const TensorType& type : in) CheckFloat(kMaskOverlapsOp, "an input", type);
  CheckPictureTruth(kMaskOverlapsOp, in[2]);
  const OverlapSizes s = OverlapSizesOf(in[0].shape, in[1].shape, in[2].shape, in[3].shape);
  return {PlainType(DType::kFloat32, Shape{s.pictures, s.detections + 4, s.objects + 3})};
}

// One image's part of the result.
void WriteOverlaps(const Attributes& attributes, const OverlapSizes& s, int64_t picture, std::span<const RefTensor> in,
                   double* out) {
  const Shape& shape = in[3].type.shape;
  const int64_t height = shape[2];
  const int64_t width = shape[3];
  const double* pixels = in[3].values.data() + picture * height * width;
  const auto object_at = [&](int64_t pixel) {
    const double row = pixels[pixel];
    return row >= 1 && row <= static_cast<double>(s.objects) ? static_cast<int64_t>(row) - 1 : int64_t{-1};
  };
  std::vector<double> areas(static_cast<size_t>(s.objects));
  for (int64_t p = 0; p < height * width; ++p) {
    if (const int64_t g = object_at(p); g >= 0) areas[static_cast<size_t>(g)] += 1;
  }
  const int64_t columns = s.objects + 3;
  // The counts come first, as a reader of plain numbers needs them to find the rest.
  out[0] = static_cast<double>(s.detections);
  out[1] = static_cast<double>(s.objects);
  double* labels = out + (s.detections + 1) * columns;
  std::vector<bool> is_crowd(static_cast<size_t>(s.objects));
  for (size_t i = 0; i + 8 <= in[2].values.size(); i += 8) {
    const double* row = in[2].values.data() + i;
    if (row[0] != static_cast<double>(picture) || !(row[1] >= 0)) continue;
    if (!(row[2] >= 1 && row[2] <= static_cast<double>(s.objects))) continue;
    const auto g = static_cast<int64_t>(row[2]) - 1;
    labels[3 + g] = row[1];
    labels[columns + 3 + g] = areas[static_cast<size_t>(g)];
    labels[2 * columns + 3 + g] = row[7];
    is_crowd[static_cast<size_t>(g)] = row[7] >= kCrowd;
  }
  std::vector<double> common(static_cast<size_t>(s.objects));
  for (int64_t k = 0; k < s.detections; ++k) {
    const int64_t at = picture * s.detections + k;
    const double* row = in[0].values.data() + at * 7;
    if (row[0] != static_cast<double>(picture) || !(row[1] >= 0)) continue;
    std::ranges::fill(common, 0.0);
    double area = 0;
    const auto w = static_cast<double>(width);
    const auto h = static_cast<double>(height);
    PasteMask(in[1].values.data() + at * s.mask * s.mask, s.mask, {row[3] * w, row[4] * h, row[5] * w, row[6] * h},
              height, width, attributes.Float("threshold"), [&](int64_t y, int64_t x) {
                area += 1;
                if (const int64_t g = object_at(y * width + x); g >= 0) common[static_cast<size_t>(g)] += 1;
              });
    double* to = out + (k + 1) * columns;
    std::ranges::copy(std::array{row[1], row[2], area}, to);
    for (size_t g = 0; g < common.size(); ++g) {
      // A detection that lies in a crowd is one of it, however small.
      const double either = is_crowd[g] ? area : area + areas[g] - common[g];
      to[3 + g] = either > 0 ? common[g] / either : 0;
    }
  }
}

void MaskOverlapsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const OverlapSizes s = OverlapSizesOf(in[0].type.shape, in[1].type.shape, in[2].type.shape, in[3].type.shape);
  std::ranges::fill(out[0].values, -1.0);
  const int64_t each = out[0].type.shape.Count(1, 3);
  for (int64_t n = 0; n < s.pictures; ++n) WriteOverlaps(attributes, s, n, in, out[0].values.data() + n * each);
}

std::vector<OpCase> MaskOverlapsCases() {
  return {{.name = "overlaps",
           .inputs = {Float32({1, 1, 8, 7}), Float32({8, 1, 4, 4}), Float32({1, 1, 6, 8}), Float32({2, 1, 9, 11})},
           .attributes = {},
           .low = 0,
           .high = 1,
           .ranges = {{2, 0, 3}, {3, 0, 3}}}};
}

}  // namespace

OpDef MaskOverlapsOp() {
  return {
      .name = std::string(kMaskOverlapsOp),
      .doc =
          "(detections [1,1,N*K,7], masks [N*K,1,S,S] of probabilities, boxes [1,1,N*G,8], instances [N,1,H,W]) -> "
          "[N,K+4,3+G]: K and G; of each detection class, score, pixels and its intersection over union with each "
          "object (over its own pixels with a crowd); the objects' classes, pixels and marks (difficult 1, crowd 2), "
          "behind three numbers without meaning. -1 where there is none.",
      .attributes = {{"threshold", 0.5, "probability of a mask's pixel"}},
      .infer = InferMaskOverlaps,
      .reference = MaskOverlapsReference,
      .precision = Precision::kKeep32,
      .on_host = on_host::kEvaluates,
      .cases = MaskOverlapsCases};
}

}  // namespace moka
