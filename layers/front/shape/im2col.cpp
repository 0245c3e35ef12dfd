// Each window laid out along the channels: [N, C*K, out..], K positions a window, so that a convolution would be a
// product with [outputs, C*K]. It is a convolution of each channel with the K one-hot kernels, which has N-d windows,
// dilation and the gradient (col2im) already.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/shape/layers.h"
#include "layers/front/spatial_fields.h"

namespace moka {
namespace {

// [n,n]: ones on the diagonal. Rows of n+1 that begin with a one, read as one long row, have their ones every n+1.
ValueId Identity(const GraphBuilder& b, int64_t n) {
  const ValueId rows = b.Add1("concat", {b.Full({n, 1}, 1), b.Full({n, n}, 0)}, {{"axis", int64_t{1}}});
  const int64_t count = (Size(n) * n).value();
  const ValueId line = b.Reshape(rows, {(Size(count) + n).value()});
  return b.Reshape(b.Add("slice", {line}, {{"axis", int64_t{0}}, {"sizes", Ints{count, n}}})[0], {n, n});
}

void Build(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const std::string param = "convolution_param";
  const Shape& x = l.shape(0);
  l.Check(p.axis() == 1 || p.axis() + x.rank() == 1, "convolution_param.axis",
          StrCat("only axis 1 can hold the channels, found ", p.axis()));
  const WindowFields window = ReadWindow(l, param, p, true);
  SpatialField dilation{.name = param + ".dilation", .name_h = param + ".dilation_h", .values = IntsOf(p.dilation())};
  if (p.has_dilation_h()) dilation.h = p.dilation_h();
  if (p.has_dilation_w()) dilation.w = p.dilation_w();
  dilation.fallback = 1;
  const Ints step = ReadSpatial(l, dilation, SpatialAxes(l));

  const int64_t channels = x[1];
  Size positions = 1;
  Ints weight{1, 1};
  for (const int64_t k : window.kernel) {
    positions *= k;
    weight.push_back(k);
  }
  const int64_t k = positions.value();
  weight[0] = (Size(channels) * k).value();
  const GraphBuilder& b = l.b();
  const ValueId one_hot = b.Add1("expand", {b.Reshape(Identity(b, k), {1, k, k})}, {{"shape", Ints{channels, k, k}}});
  l.SetTop(0, b.Add1("convolution", {l.bottom(0), b.Reshape(one_hot, Shape(weight))},
                     {{"stride", window.stride},
                      {"pad_begin", window.pad},
                      {"pad_end", window.pad},
                      {"dilation", step},
                      {"groups", channels}}));
}

}  // namespace

LayerDef Im2colLayer() {
  return {
      .type = "Im2col",
      .doc =
          "The windows of a convolution as channels: [N,C,in..] becomes [N,C*K,out..], channel c*K+k of a place "
          "being position k (row-major) of channel c's window there, zero in the padding. convolution_param has "
          "kernel_size, stride, pad and dilation, as for Convolution, with 1 to 3 spatial axes.",
      .build = Build,
      .page = {
          .params = {"convolution_param"},
          .formula = "`y[n, c*K + k, o] = x[n, c, o * stride - pad + k * dilation]` along each spatial axis, 0 "
                     "outside of x; k runs over the K positions of the kernel in row-major order. y is [N, C*K, "
                     "out..] with `out = floor((in + 2 pad - dilation * (kernel - 1) - 1) / stride) + 1`. "
                     "Defaults: pad 0, stride 1, dilation 1.",
          .gradient = "`dx[i]` is the sum of `dy` over all places that read element i (col2im).",
          .source = "BVLC Caffe's im2col_layer; only axis 1 can hold the channels. It is computed as a "
                    "convolution of each channel with the K one-hot kernels, so an infinity or NaN spoils every "
                    "position of the windows that hold it.",
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
