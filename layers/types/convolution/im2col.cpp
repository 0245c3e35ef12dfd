// Each window laid out along the channels: [N, C*K, out..], K positions a window, so that a convolution is a product
// with [outputs, C*K].
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/convolution/spatial_fields.h"

namespace moka {
namespace {

void BuildIm2col(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const std::string param = "convolution_param";
  const ChannelAxis channels(l);
  const Shape& x = channels.shape();
  const WindowFields window = ReadWindow(l, x, param, p, true);
  SpatialField dilation{.name = param + ".dilation", .name_h = param + ".dilation_h", .values = IntsOf(p.dilation())};
  if (p.has_dilation_h()) dilation.h = p.dilation_h();
  if (p.has_dilation_w()) dilation.w = p.dilation_w();
  dilation.fallback = 1;
  const ValueId y = l.b().Add1("im2col", {channels.Fold(l, l.bottom(0))},
                               {{"kernel", window.kernel},
                                {"stride", window.stride},
                                {"pad_begin", window.pad},
                                {"pad_end", window.pad_end},
                                {"dilation", ReadSpatial(l, dilation, SpatialAxes(l, x))}});
  l.SetTop(0, channels.Unfold(l, y));
}

}  // namespace

LayerDef Im2colLayer() {
  return {
      .type = "Im2col",
      .doc =
          "The windows of a convolution as channels: [N,C,in..] becomes [N,C*K,out..], channel c*K+k of a place "
          "being position k (row-major) of channel c's window there, zero in the padding. convolution_param has "
          "kernel_size, stride, pad and dilation, as for Convolution, with 1 to 3 spatial axes.",
      .build = BuildIm2col,
      .page = {
          .params = {"convolution_param"},
          .formula = "`y[n, c*K + k, o] = x[n, c, o * stride - pad + k * dilation]` along each spatial axis, 0 "
                     "outside of x; k runs over the K positions of the kernel in row-major order. y is [N, C*K, "
                     "out..] with `out = floor((in + 2 pad - dilation * (kernel - 1) - 1) / stride) + 1`. "
                     "Defaults: pad 0, stride 1, dilation 1. With another axis (default 1) C is that axis and all "
                     "before it are items.",
          .gradient = "`dx[i]` is the sum of `dy` over all places that read element i (col2im).",
          .source = "BVLC Caffe's im2col_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } } }
layer {
  name: "columns"
  type: "Im2col"
  bottom: "x"
  top: "columns"
  convolution_param { kernel_size: 3 stride: 2 pad: 1 }
})"}};
}

}  // namespace moka
