// ROIAlign (He et al. 2017, arXiv:1703.06870): the mean of bilinear samples in each bin, nothing rounded. aligned
// shifts by half a pixel, so that pixel i is centred at i + 0.5 of the image's scale; without it a region has at least
// one pixel a side (the first published code). Samples more than `margin` pixels outside count as 0.
#include "graph/op.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/forks/rcnn/ops/windows.h"

namespace moka {
namespace {

AlignFields FieldsOf(const Attributes& attributes) {
  return {.scale = attributes.Float("scale"),
          .pad_ratio = attributes.Float("pad_ratio"),
          .sampling_ratio = attributes.Int("sampling_ratio"),
          .aligned = attributes.Bool("aligned"),
          .margin = attributes.Float("margin")};
}

// Calls f(offset in x, offset in y, weight) for every pixel of every bin.
template <class F>
void VisitRoiAlignBins(const Attributes& attributes, const RefTensor& rois, const Shape& x, const Shape& y, F&& f) {
  const AlignFields fields = FieldsOf(attributes);
  VisitElements(y, [&](const Index& o, int64_t offset) {
    const double* roi = rois.values.data() + o[0] * 5;
    const int64_t image = ImageOfRoi(roi[0], x[0]);
    if (image < 0) return;
    const auto rows = AlignAxisOf<double>(roi[2], roi[4], fields, y[2], x[2]);
    const auto columns = AlignAxisOf<double>(roi[1], roi[3], fields, y[3], x[3]);
    const int64_t plane = (image * x[1] + o[1]) * x[2] * x[3];
    VisitAlignBin(rows, columns, o[2], o[3], [&](int64_t pixel, double weight) {
      f(static_cast<size_t>(plane + pixel), static_cast<size_t>(offset), weight);
    });
  });
}

std::vector<TensorType> InferRoiAlign(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roi_align", in, 2, 2);
  CheckFloat("roi_align", "x", in[0]);
  return {PlainType(in[0].dtype, RoiOutput("roi_align", attributes, in[0].shape, in[1]))};
}

void RoiAlignReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitRoiAlignBins(attributes, in[1], in[0].type.shape, out[0].type.shape,
                    [&](size_t x, size_t y, double weight) { out[0].values[y] += weight * in[0].values[x]; });
}

void RoiAlignGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.SetDx(0, c.b().Add1("roi_align_backward", {c.dy(0), c.x(1)}, WithInputShape(c.attributes(), c.b().shape(c.x(0)))));
}

std::vector<TensorType> InferRoiAlignBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("roi_align_backward", in, 2, 2);
  CheckFloat("roi_align_backward", "dy", in[0]);
  const Shape x = ShapeAttribute("roi_align_backward", attributes, "input_shape");
  CheckShape("roi_align_backward", "dy", in[0].shape, RoiOutput("roi_align_backward", attributes, x, in[1]),
             "the pooled input_shape");
  return {PlainType(in[0].dtype, x)};
}

void RoiAlignReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::ranges::fill(out[0].values, 0.0);
  VisitRoiAlignBins(attributes, in[1], out[0].type.shape, in[0].type.shape,
                    [&](size_t x, size_t y, double weight) { out[0].values[x] += weight * in[0].values[y]; });
}

std::vector<AttributeSpec> RoiAlignSpecs() {
  std::vector<AttributeSpec> specs = RoiAttributes();
  specs.push_back({"sampling_ratio", int64_t{2}, "samples a bin along each axis; 0: as many as it has pixels"});
  specs.push_back({"aligned", false, "whether coordinates are shifted by half a pixel"});
  specs.push_back({"pad_ratio", 0.0, "the part of its side by which a region is enlarged at each end"});
  specs.push_back({"margin", 1.0, "pixels outside of the map up to which a sample takes the edge's value"});
  return specs;
}

std::vector<OpCase> RoiAlignCases() {
  const auto fields = [](Attributes bins, int64_t sampling_ratio, bool aligned, double pad_ratio) {
    return With(std::move(bins), {{"sampling_ratio", sampling_ratio}, {"aligned", aligned}, {"pad_ratio", pad_ratio}});
  };
  return {RoiCase("two_samples", {16, 2, 8, 7}, 9, fields(RoiFields(2, 3, 0.45), 2, false, 0)),
          RoiCase("aligned", {16, 3, 5, 6}, 7, fields(RoiFields(3, 2, 0.35), 2, true, 0)),
          RoiCase("sampling_follows_the_bin", {16, 2, 12, 12}, 6, fields(RoiFields(2, 2, 0.7), 0, false, 0)),
          RoiCase("padded", {16, 40, 5, 4}, 3, fields(RoiFields(3, 3, 0.26), 1, true, 0.25)),
          RoiCase("half_pixel_margin", {16, 2, 5, 6}, 7,
                  With(fields(RoiFields(3, 2, 0.35), 1, true, 0), {{"margin", 0.5}}))};
}

std::vector<OpCase> RoiAlignBackwardCases() { return BackwardOf(RoiAlignCases(), InferRoiAlign); }

}  // namespace

OpDef RoiAlignOp() {
  return {.name = "roi_align",
          .doc = "(x [N,C,H,W], rois [R,5]) -> y [R,C,height,width]: the mean of bilinear samples in each bin.",
          .attributes = RoiAlignSpecs(),
          .infer = InferRoiAlign,
          .reference = RoiAlignReference,
          .gradient = RoiAlignGradient,
          .precision = Precision::kKeep32,
          .cases = RoiAlignCases};
}

OpDef RoiAlignBackwardOp() {
  return {.name = "roi_align_backward",
          .doc = "(dy, rois) -> dx of input_shape: dy spread over the pixels that were sampled.",
          .attributes = WithInputShape(RoiAlignSpecs()),
          .infer = InferRoiAlignBackward,
          .reference = RoiAlignReferenceBackward,
          .precision = Precision::kKeep32,
          .cases = RoiAlignBackwardCases};
}

}  // namespace moka
