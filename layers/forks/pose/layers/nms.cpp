// Nms: the peaks of heat maps.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildNms(LayerBuilder& l) {
  const NmsParameter& p = l.param().nms_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.num_parts() >= 1 && p.num_parts() <= x[1], "nms_param.num_parts",
          StrCat("num_parts must be from 1 to the bottom's ", x[1], " maps, found ", p.num_parts()));
  l.Check(p.max_peaks() >= 1 && p.max_peaks() <= INT32_MAX / 2, "nms_param.max_peaks",
          StrCat("max_peaks must be at least 1, found ", p.max_peaks()));
  l.SetTop(0, l.b().Add1("heat_peaks", {l.bottom(0)},
                         {{"threshold", Finite(l, "nms_param.threshold", p.threshold())},
                          {"parts", int64_t{p.num_parts()}},
                          {"peaks", int64_t{p.max_peaks()}}}));
}

}  // namespace

LayerDef NmsLayer() { return {.type = "Nms", .build = BuildNms, .params = {"nms_param"}}; }

}  // namespace moka
