// y[n,k,o] = bias[k] + sum over the window of x * w, w [K, C/group, kernel..].
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void CheckWindow(const LayerBuilder& l, const ConvolutionFields& fields) {
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    const int64_t extent = fields.dilation[i] * (fields.kernel[i] - 1) + 1;
    const int64_t input = l.shape(0)[static_cast<int>(i) + 2];
    l.Check(extent <= input + fields.pad[i] + fields.pad_end[i], "convolution_param.kernel_size",
            StrCat("the kernel covers ", extent, " of spatial axis ", i, " but the bottom ", l.shape(0).ToString(),
                   " has ", input, " there and the pad is ", fields.pad[i]));
  }
}

void Build(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const ConvolutionFields fields = ReadConvolution(l);
  CheckWindow(l, fields);
  const Shape weight = Joined({fields.outputs, l.shape(0)[1] / fields.groups}, Shape(fields.kernel));
  const ValueId w = l.AddBlob(0, weight, p.weight_filler(), ParameterRole::kWeight, "convolution_param.weight_filler");
  std::vector<ValueId> parameters{w};
  if (p.bias_term()) {
    parameters.push_back(
        l.AddBlob(1, {fields.outputs}, p.bias_filler(), ParameterRole::kBias, "convolution_param.bias_filler"));
  }
  for (int i = 0; i < l.bottom_count(); ++i) {
    std::vector<ValueId> inputs{l.bottom(i)};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    const ValueId y = l.b().Add1("convolution", inputs, fields.attributes());
    l.SetTop(i, Activated(l, y, "convolution_param", p.relu(), p.negative_slope()));
  }
}

LayerDef Row(std::string type, std::string doc) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = Build};
}

}  // namespace

LayerDef ConvolutionLayer() {
  return Row("Convolution",
             "Convolves each bottom [N,C,in..] with num_output kernels: weights [num_output, C/group, kernel..] and a "
             "bias. Output size: floor((in + 2 pad - (dilation (kernel-1) + 1)) / stride) + 1. relu: a ReLU follows.");
}

// The same layer under the names of forks.

LayerDef Convolution3DLayer() {
  return Row("Convolution3D",
             "Convolution of [N,C,depth,height,width] (C3D): kernel_depth, temporal_stride and temporal_pad beside "
             "kernel_size, stride and pad.");
}

LayerDef ConvolutionDepthwiseLayer() {
  return Row("ConvolutionDepthwise",
             "Convolution of each channel alone: weights [C, 1, kernel..]; num_output and group are the bottom's "
             "channels and need not be given.");
}

LayerDef DepthwiseConvolutionLayer() {
  return Row("DepthwiseConvolution",
             "Convolution with group equal to the bottom's channels: weights [num_output, 1, kernel..].");
}

LayerDef NdConvolutionLayer() {
  return Row("NdConvolution",
             "Convolution over 1 to 3 spatial axes (video-caffe): kernel_shape, stride_shape and pad_shape, or the "
             "fields of Convolution and Convolution3D.");
}

}  // namespace moka
