// Features times one number a position: what NormFace's nets bring a norm back with.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildChannelScale(LayerBuilder& l) {
  const ChannelScaleParameter& p = l.param().channel_scale_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  l.Check(!p.global_scale(), "channel_scale_param.global_scale", "global_scale is not part of Moka");
  const Shape scale = x.With(1, 1);
  l.Check(l.shape(1).Count() == scale.Count(), "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have one value for each of the ", scale.Count(),
                 " positions of ", x.ToString(), ", found ", l.shape(1).ToString()));
  if (!p.do_forward()) {
    l.Check(!p.do_backward_feature() && !p.do_backward_scale(), "channel_scale_param.do_forward",
            "do_forward false is for a layer that does not scale gradients either");
    return l.SetTop(0, l.bottom(0));
  }
  const ValueId bottom = l.bottom(0);
  ValueId factor = b.Reshape(l.bottom(1), scale);
  if (!p.do_backward_scale()) factor = Constant(l, factor);
  // If do_backward_feature is not set, x gets dy itself: x * s = x + x * (s - 1), whose second x is a constant.
  l.SetTop(0, p.do_backward_feature() ? b.Pointwise("x0*x1", {bottom, factor})
                                      : b.Pointwise("x0+x2*(x1-1)", {bottom, factor, Constant(l, bottom)}));
}

}  // namespace

LayerDef ChannelScaleLayer() {
  return {.type = "ChannelScale",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .build = BuildChannelScale,
          .params = {"channel_scale_param"}};
}

}  // namespace moka
