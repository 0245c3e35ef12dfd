// MaskTarget: what a net that cuts out objects learns.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskTarget(LayerBuilder& l) {
  const MaskParameter& p = l.param().mask_param();
  l.Check(p.size() >= 1 && p.size() <= 4096, "mask_param.size",
          StrCat("mask_param.size must be from 1 to 4096, found ", p.size()));
  l.SetTop(0, l.b().Add1("mask_cuts", l.bottoms(), {{"size", int64_t{p.size()}}}));
}

}  // namespace

LayerDef MaskTargetLayer() {
  return {.type = "MaskTarget", .min_bottoms = 3, .max_bottoms = 3, .build = BuildMaskTarget, .params = {"mask_param"}};
}

}  // namespace moka
