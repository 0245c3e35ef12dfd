// The transpose of Convolution: x [N,C,in..] is spread over stride*(in-1) + dilation*(kernel-1)+1 - 2 pad positions.
// Weights [C, num_output/group, kernel..].
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/convolution/spatial_fields.h"
#include "layers/types/normalisation/spectral_norm.h"

namespace moka {
namespace {

Shape OutputShape(const LayerBuilder& l, const Shape& x, const ConvolutionFields& fields) {
  Shape y{x[0], fields.outputs};
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    const Size extent = Size(fields.dilation[i]) * (fields.kernel[i] - 1) + 1;
    const Size in = x[static_cast<int>(i) + 2];
    const int64_t out = (Size(fields.stride[i]) * (in - 1) + extent - fields.pad[i] - fields.pad_end[i]).value();
    l.Check(out >= 1, "convolution_param.pad",
            StrCat("spatial axis ", i, " would have ", out, " outputs: stride ", fields.stride[i], " * (", in.value(),
                   " - 1) + ", extent.value(), " - 2 * pad ", fields.pad[i]));
    y = y.Inserted(y.rank(), out);
  }
  return y;
}

void BuildDeconvolution(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const ConvolutionFields fields = ReadConvolution(l);
  const ChannelAxis channels(l);
  const Shape weight = Joined({channels.shape()[1], fields.outputs / fields.groups}, Shape(fields.kernel));
  const Shape y = OutputShape(l, channels.shape(), fields);
  ValueId w = l.AddBlob(0, weight, p.weight_filler(), ParameterRole::kWeight, "convolution_param.weight_filler");
  ValueId bias = kNoId;
  if (p.bias_term()) {
    bias = l.AddBlob(1, {fields.outputs}, p.bias_filler(), ParameterRole::kBias, "convolution_param.bias_filler");
    bias = l.b().Reshape(bias, Spread({fields.outputs}, 1, y.rank()));
  }
  w = SpectrallyNormal(l, w, 1, bias == kNoId ? 1 : 2);
  Attributes attributes = fields.attributes();
  attributes.Set("input_shape", Ints(y.dims().begin(), y.dims().end()));
  for (int i = 0; i < l.bottom_count(); ++i) {
    const ValueId x = channels.Fold(l, l.bottom(i));
    const ValueId spread = l.b().Add1("convolution_backward_data", {x, w}, attributes);
    const ValueId sum = bias == kNoId ? spread : l.b().Pointwise("x0+x1", {spread, bias});
    l.SetTop(i, channels.Unfold(l, Activated(l, sum, "convolution_param", p.relu(), p.negative_slope())));
  }
}

}  // namespace

LayerDef DeconvolutionLayer() {
  return {
      .type = "Deconvolution",
      .doc =
          "Transposed convolution of each bottom [N,C,in..] (learnable upsampling): weights [C, num_output/group, "
          "kernel..] and a bias. Output size: stride (in-1) + dilation (kernel-1) + 1 - 2 pad.",
      .max_bottoms = -1,
      .max_tops = -1,
      .equal_counts = true,
      .build = BuildDeconvolution,
      .page = {
          .params = {"convolution_param", "spectral_norm_param"},
          .formula =
              "`y[n,k,o] = b[k] + sum of x[n,c,i] * W[c,k',r]` over the channels c of k's group and all positions i "
              "and kernel positions r with `stride*i + dilation*r - pad = o`; k' is k's number in its group. W (blob "
              "0) is [C, num_output/group, kernel..], b (blob 1) [num_output] and absent without bias_term.\n\ny is "
              "[N, num_output, out..], `out = stride*(in - 1) + dilation*(kernel - 1) + 1 - 2*pad` on each of 1 to 3 "
              "spatial axes; pad_l, pad_r, pad_t and pad_b give the sides pads of their own. With another axis "
              "(default "
              "1) C is that axis, all before it are items, those behind it are spatial. All bottoms have one shape and "
              "share W and b. relu: `y < 0` becomes `negative_slope * y`.\n\nspectral_norm_param: W is `W / s` with s "
              "about its largest singular value as a matrix [num_output/group, the rest], by the power method; its "
              "vector u [num_output/group] is one blob more, behind the bias, a statistic that TRAIN renews by `v = "
              "W^T u / |W^T u|, u = W v / |W v|` (iterations times a run, default 1) and TEST only reads; `s = u^T W "
              "v`.",
          .gradient = "`dx[n,c,i] = sum of dy[n,k,o] * W[c,k',r]` and `dW[c,k',r] = sum of x[n,c,i] * dy[n,k,o]`, over "
                      "the same pairs (dx is the Convolution of dy); `db[k] = sum of dy[n,k,o]` over n and o. The "
                      "parameters' gradients are added up over the bottoms. With relu dy counts where `y > 0`, "
                      "elsewhere times negative_slope. With spectral_norm_param the gradient goes through s, u and v "
                      "being fixed.",
          .source = "Fully convolutional networks (Long, Shelhamer, Darrell, arXiv 1411.4038); spectral normalisation: "
                    "Miyato et al., arXiv 1802.05957; BVLC Caffe's deconv_layer; "
                    "relu and negative_slope are Intel's fields. engine is read and ignored.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer {
  name: "up"
  type: "Deconvolution"
  bottom: "x"
  top: "up"
  convolution_param {
    num_output: 2 group: 2 kernel_size: 4 stride: 2 pad: 1 bias_term: false
    weight_filler { type: "bilinear" }
  }
})"}};
}

}  // namespace moka
