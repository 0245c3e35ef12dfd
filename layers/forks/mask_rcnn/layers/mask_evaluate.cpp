// MaskEvaluate: how detected masks overlap the true ones. What is right depends on ten overlaps and on all images, so
// nothing is judged here; optim/evaluators/masks.cpp does, over a whole test.
#include "core/text.h"
#include "layers/forks/mask_rcnn/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskEvaluate(LayerBuilder& l) {
  const MaskParameter& p = l.param().mask_param();
  l.Check(p.max_detections() >= 1, "mask_param.max_detections", "mask_param.max_detections must be at least 1");
  l.SetTop(0, l.b().Add1("mask_overlaps", l.bottoms(),
                         {{"threshold", PartOfField(l, "mask_param.threshold", p.threshold())}}));
}

}  // namespace

LayerDef MaskEvaluateLayer() {
  return {
      .type = "MaskEvaluate", .min_bottoms = 4, .max_bottoms = 4, .build = BuildMaskEvaluate, .params = {"mask_param"}};
}

}  // namespace moka
