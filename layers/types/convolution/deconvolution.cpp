// The transpose of Convolution: x [N,C,in..] is spread over stride*(in-1) + dilation*(kernel-1)+1 - 2 pad positions.
// Weights [C, num_output/group, kernel..].
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
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
  attributes.Set("input_shape", DimsOf(y));
  for (int i = 0; i < l.bottom_count(); ++i) {
    const ValueId x = channels.Fold(l, l.bottom(i));
    const ValueId spread = l.b().Add1("convolution_backward_data", {x, w}, attributes);
    const ValueId sum = bias == kNoId ? spread : l.b().Pointwise("x0+x1", {spread, bias});
    l.SetTop(i, channels.Unfold(l, Activated(l, sum, "convolution_param", p.relu(), p.negative_slope())));
  }
}

}  // namespace

LayerDef DeconvolutionLayer() {
  return {.type = "Deconvolution",
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = BuildDeconvolution,
          .traits = {.top_shape = TopShape::kAxes, .drawn_as = DrawnAs::kWeights},
          .needs = NeedPictures,
          .params = {"convolution_param", "spectral_norm_param"}};
}

}  // namespace moka
