// The transpose of Convolution: x [N,C,in..] is spread over stride*(in-1) + dilation*(kernel-1)+1 - 2 pad positions.
// Weights [C, num_output/group, kernel..].
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

Shape OutputShape(const LayerBuilder& l, const ConvolutionFields& fields) {
  Shape y{l.shape(0)[0], fields.outputs};
  for (size_t i = 0; i < fields.kernel.size(); ++i) {
    const Size extent = Size(fields.dilation[i]) * (fields.kernel[i] - 1) + 1;
    const Size in = l.shape(0)[static_cast<int>(i) + 2];
    const int64_t out = (Size(fields.stride[i]) * (in - 1) + extent - fields.pad[i] - fields.pad_end[i]).value();
    l.Check(out >= 1, "convolution_param.pad",
            StrCat("spatial axis ", i, " would have ", out, " outputs: stride ", fields.stride[i], " * (", in.value(),
                   " - 1) + ", extent.value(), " - 2 * pad ", fields.pad[i]));
    y = y.Inserted(y.rank(), out);
  }
  return y;
}

void Build(LayerBuilder& l) {
  const ConvolutionParameter& p = l.param().convolution_param();
  const ConvolutionFields fields = ReadConvolution(l);
  const Shape weight = Joined({l.shape(0)[1], fields.outputs / fields.groups}, Shape(fields.kernel));
  const Shape y = OutputShape(l, fields);
  const ValueId w = l.AddBlob(0, weight, p.weight_filler(), ParameterRole::kWeight, "convolution_param.weight_filler");
  ValueId bias = kNoId;
  if (p.bias_term()) {
    bias = l.AddBlob(1, {fields.outputs}, p.bias_filler(), ParameterRole::kBias, "convolution_param.bias_filler");
    bias = l.b().Reshape(bias, Spread({fields.outputs}, 1, y.rank()));
  }
  Attributes attributes = fields.attributes();
  attributes.Set("input_shape", Ints(y.dims().begin(), y.dims().end()));
  for (int i = 0; i < l.bottom_count(); ++i) {
    const ValueId spread = l.b().Add1("convolution_backward_data", {l.bottom(i), w}, attributes);
    const ValueId sum = bias == kNoId ? spread : l.b().Pointwise("x0+x1", {spread, bias});
    l.SetTop(i, Activated(l, sum, "convolution_param", p.relu(), p.negative_slope()));
  }
}

}  // namespace

LayerDef DeconvolutionLayer() {
  return {.type = "Deconvolution",
          .doc =
              "Transposed convolution of each bottom [N,C,in..] (learnable upsampling): weights [C, num_output/group, "
              "kernel..] and a bias. Output size: stride (in-1) + dilation (kernel-1) + 1 - 2 pad.",
          .max_bottoms = -1,
          .max_tops = -1,
          .equal_counts = true,
          .build = Build};
}

}  // namespace moka
