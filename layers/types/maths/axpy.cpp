// y = a * x + z with one a an item and channel: the recalibration of squeeze-and-excitation nets (SENet, arXiv
// 1709.01507).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildAxpy(LayerBuilder& l) {
  const Shape a = l.shape(0);
  const Shape x = l.shape(1);
  const bool fits = a.rank() >= 2 && x.rank() >= 2 && a[0] == x[0] && a[1] == x[1] && a.Count() == a[0] * a[1];
  l.Check(fits, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" ", a.ToString(),
                 " must have one number an item and channel of \"", l.param().bottom(1), "\" ", x.ToString()));
  l.Check(l.shape(2) == x, "bottom[2]",
          StrCat("bottoms \"", l.param().bottom(1), "\" ", x.ToString(), " and \"", l.param().bottom(2), "\" ",
                 l.shape(2).ToString(), " must have one shape"));
  const ValueId scale = l.b().Reshape(l.bottom(0), Spread({x[0], x[1]}, 0, x.rank()));
  l.SetTop(0, l.b().Pointwise("x0*x1+x2", {scale, l.bottom(1), l.bottom(2)}));
}

}  // namespace

LayerDef AxpyLayer() { return {.type = "Axpy", .min_bottoms = 3, .max_bottoms = 3, .build = BuildAxpy}; }

}  // namespace moka
