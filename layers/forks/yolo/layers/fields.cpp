// A layer whose training follows a slope made by hand shows the loss as its top and gives the slope to the bottom
// through a gradient of its own.
#include "layers/forks/yolo/layers/fields.h"

#include "core/text.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {

void CheckMap(const LayerBuilder& l, int bottom, int64_t anchors, int64_t length) {
  const Shape x = l.shape(bottom);
  l.Check(x.rank() == 4 && Size(anchors) * length == Size(x[1]), StrCat("bottom[", bottom, "]"),
          StrCat("the bottom must be [N,", anchors, "*", length, ",H,W], ", anchors, " anchors of ", length,
                 " channels, found ", x.ToString()));
}

void SetSlopedLoss(LayerBuilder& l, ValueId x, ValueId loss, ValueId slope) {
  const GraphBuilder& b = l.b();
  // The sum has slope as its derivative and adds nothing to the value.
  const ValueId sum = b.Add1("reduce_sum", {x, b.Add1("stop_gradient", {slope})},
                             {{"expr", std::string("x0*x1")}, {"axes", AllAxes(b.shape(x).rank())}});
  const ValueId carrier = b.Reshape(sum, Shape{});
  l.SetTop(0, b.Pointwise("x0+(x1-x2)", {loss, carrier, b.Add1("stop_gradient", {carrier})}));
  l.SetLoss(0, 1);
}

}  // namespace moka
