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
  Term bounded = Term::Of(scale);
  if (p.has_min_value()) bounded = Max(bounded, Decimal(Finite(l, field, p.min_value())));
  if (p.has_max_value()) bounded = Min(bounded, Decimal(Finite(l, "scale_param.max_value", p.max_value())));
  return Computed(l.b(), bounded);
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
  return {.type = "Scale",
          .max_bottoms = 2,
          .build = BuildScale,
          .traits = {.top_shape = TopShape::kOfFirst, .drawn_as = DrawnAs::kScaling},
          .params = {"scale_param"}};
}

}  // namespace moka
