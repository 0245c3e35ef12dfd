// y[n,k,o] = bias[k] + sum over the window of x * w, w [K, C/group, kernel..].
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/convolution/spatial_fields.h"
#include "layers/types/normalisation/spectral_norm.h"

namespace moka {
namespace {

void CheckWindow(const LayerBuilder& l, const Shape& x, const ConvolutionFields& fields) {
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    const int64_t extent = fields.dilation[i] * (fields.kernel[i] - 1) + 1;
    const int64_t input = x[static_cast<int>(i) + 2];
    l.Check(extent <= input + fields.pad[i] + fields.pad_end[i], "convolution_param.kernel_size",
            StrCat("the kernel covers ", extent, " of spatial axis ", i, " but the bottom ", l.shape(0).ToString(),
                   " has ", input, " there and the pad is ", fields.pad[i]));
  }
}

// The operations that BVLC's OpenCL branch joins to a convolution.
struct Joint {
  bool relu = false;
  float slope = 0;
  bool adds = false;  // the second bottom
};

Joint ReadJoint(const LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  constexpr const char* kField = "convolution_param.fuse_type";
  if (p.fuse_type() == ConvolutionParameter::UNFUSED) return {p.relu(), p.negative_slope(), false};
  l.Check(p.fuse_type() != ConvolutionParameter::FUSED_CONV_MAX_POOLING_RELU, kField,
          "FUSED_CONV_MAX_POOLING_RELU is not supported; give the Pooling and ReLU layers");
  l.Check(!p.relu() && p.negative_slope() == 0, kField, "with a fuse_type relu and negative_slope must not be given");
  const Joint joint{true, p.relu_param().negative_slope(),
                    p.fuse_type() == ConvolutionParameter::FUSED_CONV_ELTWISE_RELU};
  const EltwiseParameter& sum = p.eltwise_param();
  l.Check(!joint.adds || (sum.operation() == EltwiseParameter::SUM && sum.coeff_size() == 0 && !sum.coeff_blob()),
          "convolution_param.eltwise_param", "eltwise_param must be a SUM without coefficients");
  return joint;
}

int TopCount(const LayerBuilder& l, const Joint& joint) {
  const std::string rule = joint.adds ? "with FUSED_CONV_ELTWISE_RELU Convolution takes 2 bottoms and a top"
                                      : StrCat(l.param().type(), " takes a top for each bottom");
  const bool fits = joint.adds ? l.bottom_count() == 2 && l.top_count() == 1 : l.bottom_count() == l.top_count();
  l.Check(fits, "top", StrCat(rule, ", found ", l.bottom_count(), " bottoms and ", l.top_count(), " tops"));
  return l.top_count();
}

ValueId WithJoint(const LayerBuilder& l, const Joint& joint, ValueId y) {
  if (joint.adds) {
    const Shape shape = l.b().shape(y);
    l.Check(l.shape(1) == shape, "bottom[1]",
            StrCat("what is added must have the shape ", shape.ToString(), " of the convolution, found ",
                   l.shape(1).ToString()));
    y = l.b().Pointwise("x0+x1", {y, l.bottom(1)});
  }
  return Activated(l, y, "convolution_param", joint.relu, joint.slope);
}

// Bottoms share the weights: one blob, a node for each. An axis other than 1 is folded away before and unfolded after,
// so that the op knows [N,C,spatial..] only.
void BuildConvolution(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const ConvolutionFields fields = ReadConvolution(l);
  const ChannelAxis channels(l);
  CheckWindow(l, channels.shape(), fields);
  const Shape weight = Joined({fields.outputs, channels.shape()[1] / fields.groups}, Shape(fields.kernel));
  const ValueId w = l.AddBlob(0, weight, p.weight_filler(), ParameterRole::kWeight, "convolution_param.weight_filler");
  std::vector<ValueId> parameters{w};
  if (p.bias_term()) {
    parameters.push_back(
        l.AddBlob(1, {fields.outputs}, p.bias_filler(), ParameterRole::kBias, "convolution_param.bias_filler"));
  }
  parameters[0] = SpectrallyNormal(l, w, 0, static_cast<int>(parameters.size()));
  const Joint joint = ReadJoint(l);
  const int tops = TopCount(l, joint);
  for (int i = 0; i < tops; ++i) {
    std::vector<ValueId> inputs{channels.Fold(l, l.bottom(i))};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    const ValueId y = l.b().Add1("convolution", inputs, fields.attributes());
    l.SetTop(i, WithJoint(l, joint, channels.Unfold(l, y)));
  }
}

void NeedsOfConvolution(const ShapeReader& reader) {
  const ConvolutionParameter& p = reader.layer().convolution_param();
  NeedPictures(reader);
  NeedVolume(reader, WindowAxes(p), p.axis());
}

// A map of pictures, where a layer of cells is one of labels.
BottomShapes BottomsOfConvolution(const TopNeed& need) {
  const Shape* x = need.x();
  if (need.top.rank() != 4 || x == nullptr || x->rank() != 4) return {};
  auto bottom = BottomUnderWindows(need.layer.convolution_param(), need.top, (*x)[1]);
  if (!bottom) return {};
  bottom->is_windowed = true;
  return {*bottom};
}

LayerDef Row(std::string type) {
  return {.type = std::move(type),
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = BuildConvolution,
          .traits = {.top_shape = TopShape::kAxes},
          .needs = NeedPictures,
          .params = {"convolution_param", "spectral_norm_param"}};
}

}  // namespace

LayerDef ConvolutionLayer() {
  LayerDef def = Row("Convolution");
  def.traits.drawn_as = DrawnAs::kWeights;
  def.traits.has_filter_groups = true;
  def.needs = NeedsOfConvolution;
  def.bottoms = BottomsOfConvolution;
  def.equal_counts = false;  // fuse_type may take a bottom that has no top
  return def;
}

// The same layer under the names of forks.

LayerDef Convolution3DLayer() { return Row("Convolution3D"); }

LayerDef ConvolutionDepthwiseLayer() { return Row("ConvolutionDepthwise"); }

LayerDef DepthwiseConvolutionLayer() { return Row("DepthwiseConvolution"); }

LayerDef NdConvolutionLayer() { return Row("NdConvolution"); }

}  // namespace moka
