// The targets of a net that cuts out objects (He et al. 2017): of each region its object's pixels, brought to size x
// size by ROIAlign (as many samples a bin as it has pixels). Objects lie in images of their numbers, a map an image.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/forks/rcnn/ops/windows.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kMaskCutsOp = "mask_cuts";

std::vector<TensorType> InferMaskCuts(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kMaskCutsOp, in, 3, 3);
  CheckRois(kMaskCutsOp, in[0]);
  const int64_t regions = in[0].shape[0];
  CheckShape(kMaskCutsOp, "objects", in[1].shape, Shape{regions}, "one a region");
  CheckFloat(kMaskCutsOp, "instances", in[2]);
  if (in[2].shape.rank() != 4 || in[2].shape[1] != 1) {
    throw Error(ErrorKind::kConfig,
                StrCat(kMaskCutsOp, ": instances must be [N,1,H,W], found ", in[2].shape.ToString()));
  }
  const int64_t size = attributes.Int("size");
  if (size < 1 || size > 4096) {
    throw Error(ErrorKind::kConfig, StrCat(kMaskCutsOp, ": size must be from 1 to 4096, found ", size));
  }
  return {PlainType(DType::kFloat32, Shape{regions, 1, size, size})};
}

void MaskCutsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& shape = in[2].type.shape;
  const int64_t size = attributes.Int("size");
  const AlignFields fields{.scale = 1, .sampling_ratio = 0};
  std::ranges::fill(out[0].values, -1.0);
  for (int64_t m = 0; m < in[0].type.shape[0]; ++m) {
    const double* roi = in[0].values.data() + m * 5;
    const int64_t picture = ImageOfRoi(roi[0], shape[0]);
    const double object = in[1].values[static_cast<size_t>(m)];
    if (picture < 0 || object < 0) continue;
    const double* pixels = in[2].values.data() + picture * shape[2] * shape[3];
    const auto rows = AlignAxisOf<double>(roi[2], roi[4], fields, size, shape[2]);
    const auto columns = AlignAxisOf<double>(roi[1], roi[3], fields, size, shape[3]);
    for (int64_t bin = 0; bin < size * size; ++bin) {
      double part = 0;
      VisitAlignBin(rows, columns, bin / size, bin % size, [&](int64_t pixel, double weight) {
        if (pixels[pixel] == object) part += weight;
      });
      out[0].values[static_cast<size_t>(m * size * size + bin)] = std::min(part, 1.0);
    }
  }
}

std::vector<OpCase> MaskCutsCases() {
  return {{.name = "cut",
           .inputs = {Float32({8, 5}), Float32({8}), Float32({2, 1, 12, 14})},
           .attributes = {{"size", int64_t{5}}},
           .ranges = {{0, -1, 11}, {1, -1, 3}, {2, 0, 3}}}};
}

}  // namespace

OpDef MaskCutsOp() {
  return {.name = std::string(kMaskCutsOp),
          .doc =
              "(rois [M,5], objects [M], instances [N,1,H,W]) -> [M,1,size,size]: the part of each bin that is the "
              "region's object, -1 where there is no region.",
          .attributes = {{"size", {}, "rows and columns of bins"}},
          .infer = InferMaskCuts,
          .reference = MaskCutsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMasks,
          .cases = MaskCutsCases};
}

}  // namespace moka
