// Position-sensitive pooling (Dai et al. 2016, R-FCN): bin (i, j) of output channel c is the mean over the bin of input
// channel (c * bins + i) * bins + j; an empty bin is 0.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/forks/rcnn/ops/windows.h"

namespace moka {
namespace {

// The shape of y for x [N, C * bins^2, H, W].
Shape PsroiPoolOutput(std::string_view op, const Attributes& attributes, const Shape& x, const TensorType& rois) {
  CheckRois(op, rois);
  const int64_t bins = attributes.Int("bins");
  if (x.rank() != 4 || bins < 1 || x[1] % (Size(bins) * bins).value() != 0) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": x must be [N,C,H,W] with C a multiple of bins^2, found ", x.ToString(), " and ", bins));
  }
  return Shape{rois.shape[0], x[1] / bins / bins, bins, bins};
}

// Calls f(offset in x, offset in y, 1 / pixels) for every pixel of every bin.
template <class F>
void VisitPsroiPoolBins(const Attributes& attributes, const RefTensor& rois, const Shape& x, const Shape& y, F&& f) {
  const auto scale = static_cast<float>(attributes.Float("scale"));
  const int64_t bins = y[2];
  VisitElements(y, [&](const Index& o, int64_t offset) {
    const double* roi = rois.values.data() + o[0] * 5;
    const auto at = [roi](int i) { return static_cast<float>(roi[i]); };
    const int64_t image = ImageOfRoi(roi[0], x[0]);
    const PixelRange rows = PsroiPoolRange(at(2), at(4), scale, o[2], bins, x[2]);
    const PixelRange columns = PsroiPoolRange(at(1), at(3), scale, o[3], bins, x[3]);
    if (image < 0 || rows.is_empty() || columns.is_empty()) return;
    const int64_t channel = (o[1] * bins + o[2]) * bins + o[3];
    const int64_t plane = (image * x[1] + channel) * x[2] * x[3];
    const auto count = static_cast<double>((rows.end - rows.begin) * (columns.end - columns.begin));
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        f(static_cast<size_t>(plane + h * x[3] + w), static_cast<size_t>(offset), 1 / count);
      }
    }
  });
}

std::vector<TensorType> InferPsroiPool(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("psroi_pool", in, 2, 2);
  CheckFloat("psroi_pool", "x", in[0]);
  return {PlainType(in[0].dtype, PsroiPoolOutput("psroi_pool", attributes, in[0].shape, in[1]))};
}

void PsroiPoolReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitPsroiPoolBins(attributes, in[1], in[0].type.shape, out[0].type.shape,
                     [&](size_t x, size_t y, double share) { out[0].values[y] += share * in[0].values[x]; });
}

void PsroiPoolGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.SetDx(0, c.b().Add1("psroi_pool_backward", {c.dy(0), c.x(1)}, WithInputShape(c.attributes(), c.b().shape(c.x(0)))));
}

std::vector<TensorType> InferPsroiPoolBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("psroi_pool_backward", in, 2, 2);
  CheckFloat("psroi_pool_backward", "dy", in[0]);
  const Shape x = ShapeAttribute("psroi_pool_backward", attributes, "input_shape");
  CheckShape("psroi_pool_backward", "dy", in[0].shape, PsroiPoolOutput("psroi_pool_backward", attributes, x, in[1]),
             "the pooled input_shape");
  return {PlainType(in[0].dtype, x)};
}

void PsroiPoolReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitPsroiPoolBins(attributes, in[1], out[0].type.shape, in[0].type.shape,
                     [&](size_t x, size_t y, double share) { out[0].values[x] += share * in[0].values[y]; });
}

std::vector<AttributeSpec> PsroiPoolSpecs() {
  return {{"bins", {}, "bins a side"}, {"scale", 1.0, "from image pixels to pixels of x"}};
}

std::vector<OpCase> PsroiPoolCases() {
  return {RoiCase("three_bins", {16, 18, 8, 7}, 9, {{"bins", int64_t{3}}, {"scale", 0.5}}),
          RoiCase("one_bin", {16, 2, 12, 12}, 7, {{"bins", int64_t{1}}, {"scale", 0.9}}),
          RoiCase("seven_bins", {16, 49, 4, 5}, 4, {{"bins", int64_t{7}}, {"scale", 0.0625}})};
}

std::vector<OpCase> PsroiPoolBackwardCases() { return BackwardOf(PsroiPoolCases(), InferPsroiPool); }

}  // namespace

OpDef PsroiPoolOp() {
  return {
      .name = "psroi_pool",
      .doc =
          "(x [N,C*bins^2,H,W], rois [R,5]) -> y [R,C,bins,bins]: the mean over each bin, each bin from a channel of "
          "its own.",
      .attributes = PsroiPoolSpecs(),
      .infer = InferPsroiPool,
      .reference = PsroiPoolReference,
      .gradient = PsroiPoolGradient,
      .precision = Precision::kKeep32,
      .cases = PsroiPoolCases};
}

OpDef PsroiPoolBackwardOp() {
  return {.name = "psroi_pool_backward",
          .doc = "(dy, rois) -> dx of input_shape: dy spread evenly over its bin.",
          .attributes = WithInputShape(PsroiPoolSpecs()),
          .infer = InferPsroiPoolBackward,
          .reference = PsroiPoolReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = PsroiPoolBackwardCases};
}

}  // namespace moka
