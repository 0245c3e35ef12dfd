// y = min(max(x, min), max); the gradient passes where min <= x <= max.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildClip(LayerBuilder& l) {
  l.Check(l.param().has_clip_param(), {}, "clip_param { min: ... max: ... } must be given");
  const double low = Finite(l, "clip_param.min", l.param().clip_param().min());
  const double high = Finite(l, "clip_param.max", l.param().clip_param().max());
  l.Check(low <= high, "clip_param.min", StrCat("clip_param.min ", low, " is above max ", high));
  const Term x = l.Bottom(0);
  const Term least = Decimal(low);
  const Term most = Decimal(high);
  l.SetTop(0, Select(x < least, least, Select(x > most, most, x)));
}

}  // namespace

LayerDef ClipLayer() { return {.type = "Clip", .build = BuildClip, .params = {"clip_param"}}; }

}  // namespace moka
