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
  // Without do_backward_feature x gets dy itself: x * s = x + x * (s - 1), whose second x is a constant.
  l.SetTop(0, p.do_backward_feature() ? b.Pointwise("x0*x1", {bottom, factor})
                                      : b.Pointwise("x0+x2*(x1-1)", {bottom, factor, Constant(l, bottom)}));
}

}  // namespace

LayerDef ChannelScaleLayer() {
  return {
      .type = "ChannelScale",
      .doc =
          "The first bottom [N,C,..] with all channels of a position times the second bottom's value for it, of which "
          "there are N times the positions.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildChannelScale,
      .page = {
          .params = {"channel_scale_param"},
          .formula = "`y[n,c,..] = x[n,c,..] * s[n,..]`. do_forward false (with both do_backward fields false): y is "
                     "x.",
          .gradient = "`dx = dy * s`, with do_backward_feature false dy itself; `ds` is the sum of `dy * x` over the "
                      "channels, with do_backward_scale false none.",
          .source = "happynear's Caffe, channel_scale_layer (NormFace, Wang et al., arXiv 1704.06369). global_scale "
                    "is refused.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "s" type: "Input" top: "s" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 4 } } }
layer { name: "scaled" type: "ChannelScale" bottom: "x" bottom: "s" top: "scaled" })"}};
}

}  // namespace moka
