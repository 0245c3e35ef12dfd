// Max pooling over the bins of regions (Girshick 2015, caffe-fast-rcnn): y is the maximum over each bin, 0 over an
// empty one; argmax is the pixel's index in its plane, the first maximum winning, -1 for an empty bin.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/forks/rcnn/ops/windows.h"

namespace moka {
namespace {

std::vector<TensorType> InferRoiPool(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roi_pool", in, 2, 2);
  CheckFloat("roi_pool", "x", in[0]);
  const Shape y = RoiOutput("roi_pool", attributes, in[0].shape, in[1]);
  return {PlainType(in[0].dtype, y), PlainType(DType::kInt32, y)};
}

void RoiPoolReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = in[0].type.shape;
  const Shape& y = out[0].type.shape;
  const auto scale = static_cast<float>(attributes.Float("scale"));
  VisitElements(y, [&](const Index& o, int64_t offset) {
    const double* roi = in[1].values.data() + o[0] * 5;
    const auto at = [roi](int i) { return static_cast<float>(roi[i]); };
    const int64_t image = ImageOfRoi(roi[0], x[0]);
    const PixelRange rows = RoiPoolRange(at(2), at(4), scale, o[2], y[2], x[2]);
    const PixelRange columns = RoiPoolRange(at(1), at(3), scale, o[3], y[3], x[3]);
    double best = 0;
    int64_t argmax = -1;
    for (int64_t h = rows.begin; image >= 0 && h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const double value = in[0].values[static_cast<size_t>(((image * x[1] + o[1]) * x[2] + h) * x[3] + w)];
        if (argmax >= 0 && !(value > best)) continue;
        best = value;
        argmax = h * x[3] + w;
      }
    }
    out[0].values[static_cast<size_t>(offset)] = best;
    out[1].values[static_cast<size_t>(offset)] = static_cast<double>(argmax);
  });
}

void RoiPoolGradient(GradientContext& c) {
  if (c.dy(0) == kNoId || !c.wants(0)) return;
  const Attributes shape{{"input_shape", DimsOf(c.b().shape(c.x(0)))}};
  c.SetDx(0, c.b().Add1("roi_pool_backward", {c.dy(0), c.y(1), c.x(1)}, shape));
}

std::vector<TensorType> InferRoiPoolBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roi_pool_backward", in, 3, 3);
  CheckFloat("roi_pool_backward", "dy", in[0]);
  CheckShape("roi_pool_backward", "argmax", in[1].shape, in[0].shape, "dy's shape");
  CheckRois("roi_pool_backward", in[2]);
  return {PlainType(in[0].dtype, ShapeAttribute("roi_pool_backward", attributes, "input_shape"))};
}

void RoiPoolReferenceBackward(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const Shape& x = out[0].type.shape;
  std::ranges::fill(out[0].values, 0.0);
  VisitElements(in[0].type.shape, [&](const Index& o, int64_t offset) {
    const int64_t image = ImageOfRoi(in[2].values[static_cast<size_t>(o[0] * 5)], x[0]);
    const auto argmax = static_cast<int64_t>(in[1].values[static_cast<size_t>(offset)]);
    if (image < 0 || argmax < 0) return;
    const int64_t plane = (image * x[1] + o[1]) * x[2] * x[3];
    out[0].values[static_cast<size_t>(plane + argmax)] += in[0].values[static_cast<size_t>(offset)];
  });
}

std::vector<OpCase> RoiPoolCases() {
  return {RoiCase("halved", {16, 2, 8, 7}, 9, RoiFields(2, 3, 0.5)),
          RoiCase("bins_of_parts", {16, 3, 5, 6}, 7, RoiFields(7, 7, 0.3)),
          RoiCase("one_bin", {16, 1, 12, 12}, 20, RoiFields(1, 1, 1)),
          RoiCase("many_channels", {16, 40, 4, 5}, 3, RoiFields(3, 2, 0.25))};
}

std::vector<OpCase> RoiPoolBackwardCases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : RoiPoolCases()) {
    const Shape& x = c.inputs[0].shape;
    const Shape y{c.inputs[1].shape[0], x[1], c.attributes.Int("height"), c.attributes.Int("width")};
    cases.push_back({.name = c.name,
                     .inputs = {{DType::kFloat32, y, {}}, {DType::kInt32, y, {}}, c.inputs[1]},
                     .attributes = {{"input_shape", DimsOf(x)}},
                     .ranges = {{1, -1, static_cast<double>(x[2] * x[3] - 1)}, {2, 0, 15}}});
  }
  return cases;
}

}  // namespace

OpDef RoiPoolOp() {
  return {.name = "roi_pool",
          .doc = "(x [N,C,H,W], rois [R,5]) -> y [R,C,height,width], argmax like y: the maximum over each bin.",
          .attributes = RoiAttributes(),
          .infer = InferRoiPool,
          .reference = RoiPoolReference,
          .gradient = RoiPoolGradient,
          .precision = Precision::kKeep32,
          .cases = RoiPoolCases};
}

OpDef RoiPoolBackwardOp() {
  return {.name = "roi_pool_backward",
          .doc = "(dy, argmax, rois) -> dx: each dy goes to the pixel its bin took.",
          .attributes = WithInputShape(std::vector<AttributeSpec>{}),
          .infer = InferRoiPoolBackward,
          .reference = RoiPoolReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = RoiPoolBackwardCases};
}

}  // namespace moka
