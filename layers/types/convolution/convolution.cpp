// y[n,k,o] = bias[k] + sum over the window of x * w, w [K, C/group, kernel..].
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
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

// What BVLC's OpenCL branch joins to a convolution.
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

LayerDef Row(std::string type, std::string doc, LayerPage page) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = BuildConvolution,
          .page = std::move(page)};
}

}  // namespace

LayerDef ConvolutionLayer() {
  LayerDef def = Row(
      "Convolution",
      "Convolves each bottom [N,C,in..] with num_output kernels: weights [num_output, C/group, kernel..] and a bias. "
      "Output size: floor((in + 2 pad - (dilation (kernel-1) + 1)) / stride) + 1. relu: a ReLU follows, as it does "
      "with fuse_type, which may add a second bottom before.",
      {.params = {"convolution_param", "spectral_norm_param"},
       .formula = "`y[n,k,o] = b[k] + sum over c, r of x[n, g*C/group + c, stride*o + dilation*r - pad] * W[k,c,r]`, "
                  "where o and r are positions of the output and the kernel with one index a spatial axis, g is the "
                  "group of k, c counts the `C / group` channels of a group, and x is 0 outside. W (blob 0) is "
                  "[num_output, C/group, kernel..], b (blob 1) is [num_output] and absent without bias_term.\n\ny is "
                  "[N, num_output, out..], `out = floor((in + 2*pad - (dilation*(kernel - 1) + 1)) / stride) + 1` on "
                  "each of 1 to 3 spatial axes; stride and dilation are 1 and pad 0 unless given, once for all axes or "
                  "once each. pad_l, pad_r, pad_t and pad_b give the sides pads of their own. relu: `y < 0` becomes "
                  "`negative_slope * y`; fuse_type FUSED_CONV_RELU is the same with relu_param's negative_slope, and "
                  "FUSED_CONV_ELTWISE_RELU (2 bottoms, 1 top) adds the second bottom, of y's shape, before it. With "
                  "another axis (default 1) C is that axis, all before it are items and keep "
                  "their places, those behind it are spatial. All bottoms have one shape and share W and b."
                  "\n\nspectral_norm_param: W is `W / s` with s about its largest singular value as a matrix "
                  "[num_output, the rest], by the power method; its vector u [num_output] is one blob more, behind the "
                  "bias, a statistic that TRAIN renews by `v = W^T u / |W^T u|, u = W v / |W v|` (iterations times a "
                  "run, default 1) and TEST only reads; `s = u^T W v`.",
       .gradient = "`db[k] = sum of dy[n,k,o]` over n and o; `dW[k,c,r] = sum of dy[n,k,o] * x[n, g*C/group + c, "
                   "stride*o + dilation*r - pad]` over n and o; `dx` = the sum of `dy[n,k,o] * W[k,c,r]` over all k, o "
                   "and r that read the element. The parameters' gradients are added up over the bottoms. With relu dy "
                   "counts where `y > 0`, elsewhere times negative_slope. With spectral_norm_param the gradient goes "
                   "through s, u and v being fixed.",
       .source = "Spectral normalisation: Miyato et al., arXiv 1802.05957. BVLC Caffe's base_conv_layer and "
                 "conv_layer; relu and negative_slope are Intel's Caffe's, pads of "
                 "the sides Synopsys', fuse_type that of BVLC's OpenCL branch. engine and the other fields that choose "
                 "an algorithm are read and ignored.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "conv"
  type: "Convolution"
  bottom: "x"
  top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 weight_filler { type: "xavier" } }
})"});
  def.equal_counts = false;  // fuse_type may take a bottom that has no top
  return def;
}

// The same layer under the names of forks.

LayerDef Convolution3DLayer() {
  return Row(
      "Convolution3D",
      "Convolution of [N,C,depth,height,width] (C3D): kernel_depth, temporal_stride and temporal_pad beside "
      "kernel_size, stride and pad.",
      {.params = {"convolution_param", "spectral_norm_param"},
       .formula = "As Convolution, on [N,C,depth,height,width]: kernel_depth, temporal_stride (default 1) and "
                  "temporal_pad (default 0) are the kernel, stride and pad of the depth; kernel_size, stride and pad "
                  "those of height and width. W (blob 0) is [num_output, C/group, kernel_depth, kernel_h, kernel_w], b "
                  "(blob 1) [num_output].\n\ny is [N, num_output, out..], `out = floor((in + 2*pad - (dilation*(kernel "
                  "- 1) + 1)) / stride) + 1` on each axis.",
       .gradient = "`db[k] = sum of dy[n,k,o]` over n and o; `dW[k,c,r] = sum of dy[n,k,o] * x[n, g*C/group + c, "
                   "stride*o + dilation*r - pad]` over n and o; `dx` = the sum of `dy[n,k,o] * W[k,c,r]` over all k, o "
                   "and r that read the element. The parameters' gradients are added up over the bottoms. With relu dy "
                   "counts where `y > 0`, elsewhere times negative_slope.",
       .source = "Learning spatiotemporal features with 3D convolutional networks (Tran et al., arXiv 1412.0767); "
                 "C3D's Caffe, convolution3d_layer.",
       .example =
           R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 6 dim: 6 } } }
layer {
  name: "conv"
  type: "Convolution3D"
  bottom: "x"
  top: "conv"
  convolution_param { num_output: 2 kernel_depth: 3 kernel_size: 3 temporal_pad: 1 pad: 1 }
})"});
}

LayerDef ConvolutionDepthwiseLayer() {
  return Row(
      "ConvolutionDepthwise",
      "Convolution of each channel alone: weights [C, 1, kernel..]; num_output and group are the bottom's "
      "channels, and may be left out.",
      {.params = {"convolution_param", "spectral_norm_param"},
       .formula = "`y[n,c,o] = b[c] + sum over r of x[n, c, stride*o + dilation*r - pad] * W[c,0,r]`: Convolution with "
                  "num_output and group equal to C; other values of them are refused. W (blob 0) is [C, 1, "
                  "kernel..], b (blob 1) [C].\n\ny is [N, C, out..], `out = floor((in + 2*pad - (dilation*(kernel - 1) "
                  "+ 1)) / stride) + 1`.",
       .gradient = "`db[k] = sum of dy[n,k,o]` over n and o; `dW[k,0,r] = sum of dy[n,k,o] * x[n, k, stride*o + "
                   "dilation*r - pad]` over n and o; `dx` = the sum of `dy[n,k,o] * W[k,0,r]` over all k, o and r that "
                   "read the element. The parameters' gradients are added up over the bottoms. With relu dy counts "
                   "where `y > 0`, elsewhere times negative_slope.",
       .source =
           "MobileNets (Howard et al., arXiv 1704.04861); conv_dw_layer, proposed to BVLC Caffe as pull request 5665.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 dim: 6 dim: 6 } } }
layer {
  name: "conv"
  type: "ConvolutionDepthwise"
  bottom: "x"
  top: "conv"
  convolution_param { kernel_size: 3 pad: 1 }
})"});
}

LayerDef DepthwiseConvolutionLayer() {
  return Row(
      "DepthwiseConvolution",
      "Convolution with group equal to the bottom's channels: weights [num_output, 1, kernel..].",
      {.params = {"convolution_param", "spectral_norm_param"},
       .formula = "As Convolution, with group equal to C, which must be given: channel k of the top sees only channel "
                  "`floor(k / (num_output / C))` of the bottom. W (blob 0) is [num_output, 1, kernel..], b (blob 1) "
                  "[num_output]; num_output is a multiple of C.\n\ny is [N, num_output, out..], `out = floor((in + "
                  "2*pad - (dilation*(kernel - 1) + 1)) / stride) + 1`.",
       .gradient = "`db[k] = sum of dy[n,k,o]` over n and o; `dW[k,0,r] = sum of dy[n,k,o] * x[n, g, stride*o + "
                   "dilation*r - pad]` over n and o, g the channel that k sees; `dx` = the sum of `dy[n,k,o] * "
                   "W[k,0,r]` over all k, o and r that read the element. The parameters' gradients are added up over "
                   "the bottoms. With relu dy counts where `y > 0`, elsewhere times negative_slope.",
       .source = "MobileNets (Howard et al., arXiv 1704.04861); yonghenglh6's DepthwiseConvolution for Caffe.",
       .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 4 dim: 6 dim: 6 } } }
layer {
  name: "conv"
  type: "DepthwiseConvolution"
  bottom: "x"
  top: "conv"
  convolution_param { num_output: 4 group: 4 kernel_size: 3 pad: 1 }
})"});
}

LayerDef NdConvolutionLayer() {
  return Row(
      "NdConvolution",
      "Convolution over 1 to 3 spatial axes (video-caffe): kernel_shape, stride_shape and pad_shape, or the "
      "fields of Convolution and Convolution3D.",
      {.params = {"convolution_param", "spectral_norm_param"},
       .formula =
           "As Convolution, with kernel_shape, stride_shape (default 1) and pad_shape (default 0), one dim a spatial "
           "axis each. W (blob 0) is [num_output, C/group, kernel..], b (blob 1) [num_output].\n\ny is [N, num_output, "
           "out..], `out = floor((in + 2*pad - (dilation*(kernel - 1) + 1)) / stride) + 1` on each axis.",
       .gradient = "`db[k] = sum of dy[n,k,o]` over n and o; `dW[k,c,r] = sum of dy[n,k,o] * x[n, g*C/group + c, "
                   "stride*o + dilation*r - pad]` over n and o; `dx` = the sum of `dy[n,k,o] * W[k,c,r]` over all k, o "
                   "and r that read the element. The parameters' gradients are added up over the bottoms. With relu dy "
                   "counts where `y > 0`, elsewhere times negative_slope.",
       .source = "video-caffe's ndconv_layer, for the nets of Tran et al. (arXiv 1412.0767). Here 1 to 3 spatial axes "
                 "and the fields of Convolution and Convolution3D work as well.",
       .example =
           R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 6 dim: 6 } } }
layer {
  name: "conv"
  type: "NdConvolution"
  bottom: "x"
  top: "conv"
  convolution_param {
    num_output: 3
    kernel_shape { dim: 2 dim: 3 dim: 3 }
    stride_shape { dim: 2 dim: 1 dim: 1 }
    pad_shape { dim: 0 dim: 1 dim: 1 }
  }
})"});
}

}  // namespace moka
