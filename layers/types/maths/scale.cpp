// y = x * scale + shift, both laid along some axes of x.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/maths/broadcast_operand.h"

namespace moka {
namespace {

// The trained scale within min_value and max_value, which the fork enforces on the blob itself before each run: the
// same only where no step moves it.
ValueId Bounded(const LayerBuilder& l, ValueId scale) {
  const ScaleParameter& p = l.param().scale_param();
  if (!p.has_min_value() && !p.has_max_value()) return scale;
  const std::string field = p.has_min_value() ? "scale_param.min_value" : "scale_param.max_value";
  l.Check(l.bottom_count() == 1, field, StrCat(field, " bounds a blob, but the scale is bottom 1"));
  l.Check(l.param().param_size() > 0 && l.param().param(0).lr_mult() == 0, field,
          StrCat(field,
                 " bounds a parameter between steps, which is not part of Moka where it is trained; give param { "
                 "lr_mult: 0 } or leave it out"));
  std::string text = "x0";
  if (p.has_min_value()) text = StrCat("max(", text, ",", Number(Finite(l, field, p.min_value())), ")");
  if (p.has_max_value()) {
    text = StrCat("min(", text, ",", Number(Finite(l, "scale_param.max_value", p.max_value())), ")");
  }
  return l.b().Pointwise(text, {scale});
}

void BuildScale(LayerBuilder& l) {
  const ScaleParameter& p = l.param().scale_param();
  BroadcastOperand scale = ReadOperand(l, {"scale_param", p.axis(), p.num_axes()});
  int blobs = 0;
  if (scale.value == kNoId) {
    FillerParameter one = p.filler();
    if (!p.has_filler()) one.set_value(1);
    scale.value = l.AddBlob(blobs++, scale.shape, one, ParameterRole::kNorm, "scale_param.filler");
  }
  scale.value = Bounded(l, scale.value);
  const Shape spread = Spread(scale.shape, scale.axis, l.shape(0).rank());
  std::vector<ValueId> inputs{l.bottom(0), l.b().Reshape(scale.value, spread)};
  if (p.bias_term()) {
    const ValueId bias =
        l.AddBlob(blobs, scale.shape, p.bias_filler(), ParameterRole::kNorm, "scale_param.bias_filler");
    inputs.push_back(l.b().Reshape(bias, spread));
  }
  l.SetTop(0, l.b().Pointwise(p.bias_term() ? "x0*x1+x2" : "x0*x1", inputs));
}

}  // namespace

LayerDef ScaleLayer() {
  return {
      .type = "Scale",
      .doc =
          "x * scale, and + a bias with bias_term; the scale is a trained blob over axes axis..axis+num_axes of "
          "the bottom, or the second bottom.",
      .max_bottoms = 2,
      .build = BuildScale,
      .page = {
          .params = {"scale_param"},
          .formula = "`y = x * scale`, and `+ bias` with `bias_term`; y has the shape of x. scale covers axes `axis` "
                     "(default 1; negative counts from the end) to `axis + num_axes` (default 1 of them; -1: to the "
                     "last; 0: one number) of x and is repeated along the others. With one bottom it is blob 0, filled "
                     "with 1 unless `filler` is given, and the bias blob 1; with two bottoms it is bottom 1, whose "
                     "dimensions must equal x's from axis on (a scalar multiplies all), and the bias is blob 0. The "
                     "bias has scale's shape and begins as 0.",
          .gradient = "x: `dx = dy * scale`. scale (blob or bottom 1): `dscale = sum(dy x)`, bias: `dbias = sum(dy)`, "
                      "over the elements each value was used for.",
          .source = "BVLC Caffe's scale_layer. `min_value` and `max_value` are happynear's, which bound the parameter "
                    "between steps: an error unless it has an `lr_mult` of 0.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "scale"
  type: "Scale"
  bottom: "x"
  top: "scale"
  scale_param { axis: 1 bias_term: true filler { type: "constant" value: 2 } }
})"}};
}

}  // namespace moka
