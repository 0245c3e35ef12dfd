// MNC's MaskPooling: features times a mask.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMaskPooling(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const Shape mask = l.shape(1);
  l.Check(x.rank() == 4 && mask == x.With(1, 1), "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 mask.ToString(), " must be features [N,C,H,W] and masks [N,1,H,W]"));
  l.SetTop(0, l.b().Pointwise("x0*x1", l.bottoms()));
}

}  // namespace

LayerDef MaskPoolingLayer() {
  return {.type = "MaskPooling", .min_bottoms = 2, .max_bottoms = 2, .build = BuildMaskPooling};
}

}  // namespace moka
