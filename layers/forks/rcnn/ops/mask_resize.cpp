// Bilinear resizing as MNC's MaskResize does it: output (i, j) is the sample at (i * H / height, j * W / width),
// without the half pixel; beyond the last row or column the last one counts.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/forks/rcnn/ops/windows.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

Shape MaskResizeOutput(std::string_view op, const Attributes& attributes, const Shape& x) {
  const int64_t height = attributes.Int("height");
  const int64_t width = attributes.Int("width");
  if (x.rank() != 4 || height < 1 || width < 1) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [N,C,H,W] and the size at least 1, found ", x.ToString(),
                                           " and ", height, " x ", width));
  }
  return Shape{x[0], x[1], height, width};
}

// Calls f(offset in x, offset in y, weight).
template <class F>
void VisitMaskResizeSamples(const Shape& x, const Shape& y, F&& f) {
  const auto taps = [](int64_t i, int64_t outputs, int64_t inputs) {
    return TapsAt(static_cast<double>(i) * static_cast<double>(inputs) / static_cast<double>(outputs), inputs, 1.0);
  };
  VisitElements(y, [&](const Index& o, int64_t offset) {
    const int64_t plane = (o[0] * x[1] + o[1]) * x[2] * x[3];
    VisitTaps(taps(o[2], y[2], x[2]), taps(o[3], y[3], x[3]), x[3], [&](int64_t pixel, double weight) {
      f(static_cast<size_t>(plane + pixel), static_cast<size_t>(offset), weight);
    });
  });
}

std::vector<TensorType> InferMaskResize(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("mask_resize", in, 1, 1);
  CheckFloat("mask_resize", "x", in[0]);
  return {PlainType(in[0].dtype, MaskResizeOutput("mask_resize", attributes, in[0].shape))};
}

void MaskResizeReference(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitMaskResizeSamples(in[0].type.shape, out[0].type.shape,
                         [&](size_t x, size_t y, double weight) { out[0].values[y] += weight * in[0].values[x]; });
}

void MaskResizeGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.SetDx(0, c.b().Add1("mask_resize_backward", {c.dy(0)}, WithInputShape(c.attributes(), c.b().shape(c.x(0)))));
}

std::vector<TensorType> InferMaskResizeBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("mask_resize_backward", in, 1, 1);
  CheckFloat("mask_resize_backward", "dy", in[0]);
  const Shape x = ShapeAttribute("mask_resize_backward", attributes, "input_shape");
  CheckShape("mask_resize_backward", "dy", in[0].shape, MaskResizeOutput("mask_resize_backward", attributes, x),
             "the resized input_shape");
  return {PlainType(in[0].dtype, x)};
}

void MaskResizeReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitMaskResizeSamples(out[0].type.shape, in[0].type.shape,
                         [&](size_t x, size_t y, double weight) { out[0].values[x] += weight * in[0].values[y]; });
}

std::vector<AttributeSpec> MaskResizeSpecs() { return {{"height", {}, "rows of y"}, {"width", {}, "columns of y"}}; }

Attributes MaskResizeSizeOf(int64_t height, int64_t width) { return {{"height", height}, {"width", width}}; }

std::vector<OpCase> MaskResizeCases() {
  return {{"smaller", {Float32({2, 1, 9, 6})}, MaskResizeSizeOf(6, 4)},
          {"larger", {Float32({1, 3, 3, 4})}, MaskResizeSizeOf(7, 10)},
          {"one_pixel", {Float32({3, 1, 5, 5})}, MaskResizeSizeOf(1, 1)}};
}

std::vector<OpCase> MaskResizeBackwardCases() { return BackwardOf(MaskResizeCases(), InferMaskResize); }

}  // namespace

OpDef MaskResizeOp() {
  return {.name = "mask_resize",
          .doc = "x [N,C,H,W] -> y [N,C,height,width]: bilinear, row i sampled at i * H / height.",
          .attributes = MaskResizeSpecs(),
          .infer = InferMaskResize,
          .reference = MaskResizeReference,
          .gradient = MaskResizeGradient,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMasks,
          .cases = MaskResizeCases};
}

OpDef MaskResizeBackwardOp() {
  return {.name = "mask_resize_backward",
          .doc = "dy -> dx of input_shape: dy spread over the pixels that were sampled.",
          .attributes = WithInputShape(MaskResizeSpecs()),
          .infer = InferMaskResizeBackward,
          .reference = MaskResizeReferenceBackward,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMasks,
          .cases = MaskResizeBackwardCases};
}

}  // namespace moka
