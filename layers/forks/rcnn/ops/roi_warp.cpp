// ROIWarping (Dai et al. 2016, MNC; after caffe-mnc): one bilinear sample at each bin's corner (start + i * extent /
// bins, the ends rounded to pixels of x), so that the regions, too, get a gradient: a sample that lies the part r of
// the way from x1 to x2 gives (1 - r) df/dx to x1 and r df/dx to x2. As there, r counts both ends' pixels, samples in
// the last row or column give none, and neither do samples outside the map.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/forks/rcnn/ops/windows.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

// The samples of one axis of a region.
struct WarpAxis {
  double start;
  double extent;  // the last pixel left out
  int64_t bins;
  int64_t size;

  WarpAxis(double first, double last, double scale, int64_t bin_count, int64_t pixels)
      : start(Rounded(first, scale)),
        extent(std::max(Rounded(last, scale) - start, 0.0)),
        bins(bin_count),
        size(pixels),
        part_extent_(std::max(Rounded(last, scale) - start + 1, 1.0)) {}

  Taps<double> At(int64_t bin) const {
    return TapsAt(start + static_cast<double>(bin) * extent / static_cast<double>(bins), size, 0.5);
  }
  // r of the file's head.
  double PartOf(const Taps<double>& at) const {
    return (static_cast<double>(at.low) + at.high_weight - start) / part_extent_;
  }

 private:
  static double Rounded(double at, double scale) {
    return std::round(HeldCoordinate(static_cast<float>(at) * static_cast<float>(scale)));
  }
  double part_extent_;
};

// Calls f(o, offset in y, offset of the plane in x, rows, columns, row, column) for the samples inside the map.
template <class F>
void VisitRoiWarpSamples(const Attributes& attributes, const RefTensor& rois, const Shape& x, const Shape& y, F&& f) {
  const double scale = attributes.Float("scale");
  VisitElements(y, [&](const Index& o, int64_t offset) {
    const double* roi = rois.values.data() + o[0] * 5;
    const int64_t image = ImageOfRoi(roi[0], x[0]);
    const WarpAxis rows(roi[2], roi[4], scale, y[2], x[2]);
    const WarpAxis columns(roi[1], roi[3], scale, y[3], x[3]);
    const Taps<double> row = rows.At(o[2]);
    const Taps<double> column = columns.At(o[3]);
    if (image < 0 || !row.is_inside || !column.is_inside) return;
    const int64_t plane = (image * x[1] + o[1]) * x[2] * x[3];
    f(o[0], static_cast<size_t>(offset), plane, rows, columns, row, column);
  });
}

std::vector<TensorType> InferRoiWarp(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roi_warp", in, 2, 2);
  CheckFloat("roi_warp", "x", in[0]);
  return {PlainType(in[0].dtype, RoiOutput("roi_warp", attributes, in[0].shape, in[1]))};
}

void RoiWarpReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  const Shape& x = in[0].type.shape;
  VisitRoiWarpSamples(attributes, in[1], x, out[0].type.shape,
                      [&](int64_t, size_t y, int64_t plane, const WarpAxis&, const WarpAxis&, const Taps<double>& row,
                          const Taps<double>& column) {
                        VisitTaps(row, column, x[3], [&](int64_t pixel, double weight) {
                          out[0].values[y] += weight * in[0].values[static_cast<size_t>(plane + pixel)];
                        });
                      });
}

void RoiWarpGradient(GradientContext& c) {
  if (!c.wants(0) && !c.wants(1)) return;
  const std::vector<ValueId> dx = c.b().Add("roi_warp_backward", {c.x(0), c.x(1), c.dy(0)}, c.attributes());
  for (const int i : {0, 1}) {
    if (c.wants(i)) c.SetDx(i, dx[static_cast<size_t>(i)]);
  }
}

std::vector<TensorType> InferRoiWarpBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roi_warp_backward", in, 3, 3);
  CheckFloat("roi_warp_backward", "x", in[0]);
  CheckShape("roi_warp_backward", "dy", in[2].shape, RoiOutput("roi_warp_backward", attributes, in[0].shape, in[1]),
             "the warped x");
  return {PlainType(in[0].dtype, in[0].shape), PlainType(in[1].dtype, in[1].shape)};
}

// df along an axis: `at` are the sample's offsets (low-low, low-high, high-low, high-high), along the second letter.
double Slope(const RefTensor& x, int64_t low_low, int64_t low_high, int64_t high_low, int64_t high_high,
             double weight) {
  const auto value = [&](int64_t i) { return x.values[static_cast<size_t>(i)]; };
  return (1 - weight) * (value(low_high) - value(low_low)) + weight * (value(high_high) - value(high_low));
}

void RoiWarpReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  std::ranges::fill(out[1].values, 0.0);
  const Shape& x = in[0].type.shape;
  const double scale = attributes.Float("scale");
  VisitRoiWarpSamples(attributes, in[1], x, in[2].type.shape,
                      [&](int64_t roi, size_t y, int64_t plane, const WarpAxis& rows, const WarpAxis& columns,
                          const Taps<double>& row, const Taps<double>& column) {
                        const double dy = in[2].values[y];
                        VisitTaps(row, column, x[3], [&](int64_t pixel, double weight) {
                          out[0].values[static_cast<size_t>(plane + pixel)] += weight * dy;
                        });
                        if (row.low + 1 > x[2] - 1 || column.low + 1 > x[3] - 1) return;
                        const int64_t p = plane + row.low * x[3] + column.low;
                        const int64_t q = plane + row.high * x[3] + column.low;
                        const double along_x = scale * dy * Slope(in[0], p, p + 1, q, q + 1, row.high_weight);
                        const double along_y = scale * dy * Slope(in[0], p, q, p + 1, q + 1, column.high_weight);
                        double* d = out[1].values.data() + roi * 5;
                        d[1] += (1 - columns.PartOf(column)) * along_x;
                        d[2] += (1 - rows.PartOf(row)) * along_y;
                        d[3] += columns.PartOf(column) * along_x;
                        d[4] += rows.PartOf(row) * along_y;
                      });
}

std::vector<OpCase> RoiWarpCases() {
  return {RoiCase("halved", {16, 2, 8, 7}, 9, RoiFields(2, 3, 0.5)),
          RoiCase("fine_bins", {16, 3, 5, 6}, 7, RoiFields(7, 7, 0.3)),
          RoiCase("one_bin", {16, 1, 12, 12}, 20, RoiFields(1, 1, 1))};
}

std::vector<OpCase> RoiWarpBackwardCases() {
  std::vector<OpCase> cases;
  for (OpCase& c : RoiWarpCases()) {
    const Shape y{c.inputs[1].shape[0], c.inputs[0].shape[1], c.attributes.Int("height"), c.attributes.Int("width")};
    c.inputs.push_back({DType::kFloat32, y, {}});
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

OpDef RoiWarpOp() {
  return {.name = "roi_warp",
          .doc = "(x [N,C,H,W], rois [R,5]) -> y [R,C,height,width]: a bilinear sample at the corner of each bin.",
          .attributes = RoiAttributes(),
          .infer = InferRoiWarp,
          .reference = RoiWarpReference,
          .gradient = RoiWarpGradient,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMasks,
          .cases = RoiWarpCases};
}

OpDef RoiWarpBackwardOp() {
  return {.name = "roi_warp_backward",
          .doc = "(x, rois, dy) -> dx, drois: dy spread over the sampled pixels, and what moving the corners would do.",
          .attributes = RoiAttributes(),
          .infer = InferRoiWarpBackward,
          .reference = RoiWarpReferenceBackward,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMasks,
          .cases = RoiWarpBackwardCases};
}

}  // namespace moka
