// MNC's MaskPooling: features times a mask.
#include "core/text.h"
#include "layers/front/roi/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const Shape& x = l.shape(0);
  const Shape& mask = l.shape(1);
  l.Check(x.rank() == 4 && mask == x.With(1, 1), "bottom[1]",
          StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(1), "\" ",
                 mask.ToString(), " must be features [N,C,H,W] and masks [N,1,H,W]"));
  l.SetTop(0, l.b().Pointwise("x0*x1", l.bottoms()));
}

}  // namespace

LayerDef MaskPoolingLayer() {
  return {.type = "MaskPooling",
          .doc = "Features [N,C,H,W] times masks [N,1,H,W], the same for every channel (MNC); both get a gradient.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = Build};
}

}  // namespace moka
