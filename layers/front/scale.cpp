// y = x * scale + shift, both laid along some axes of x.
#include "core/text.h"
#include "layers/front/broadcast_operand.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const ScaleParameter& p = l.param().scale_param();
  for (const char* field : {"scale_param.min_value", "scale_param.max_value"}) {
    const bool is_set = std::string_view(field).ends_with("min_value") ? p.has_min_value() : p.has_max_value();
    l.Check(!is_set, field,
            StrCat(field, " bounds a parameter between steps, which is not part of Moka; leave it out"));
  }
  BroadcastOperand scale = ReadOperand(l, {"scale_param", p.axis(), p.num_axes()});
  int blobs = 0;
  if (scale.value == kNoId) {
    FillerParameter one = p.filler();
    if (!p.has_filler()) one.set_value(1);
    scale.value = l.AddBlob(blobs++, scale.shape, one, ParameterRole::kNorm, "scale_param.filler");
  }
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
          .doc =
              "x * scale, and + a bias with bias_term; the scale is a trained blob over axes axis..axis+num_axes of "
              "the bottom, or the second bottom.",
          .max_bottoms = 2,
          .build = Build};
}

}  // namespace moka
