// L2 normalisation with a trained scale (ParseNet, arXiv 1506.04579; SSD's layer).
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const NormalizeParameter& p = l.param().norm_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  const double eps = Finite(l, "norm_param.eps", p.eps());
  l.Check(eps >= 0, "norm_param.eps", StrCat("norm_param.eps must not be negative, found ", eps));
  FillerParameter filler = p.scale_filler();
  if (!p.has_scale_filler()) filler.set_value(1);
  const Shape shape = p.channel_shared() ? Shape{} : Shape{x[1]};
  const ValueId blob = l.AddBlob(0, shape, filler, ParameterRole::kNorm, "norm_param.scale_filler");
  Ints axes{1};
  for (int i = 2; p.across_spatial() && i < x.rank(); ++i) axes.push_back(i);
  const ValueId square = b.Add1("reduce_sum", {l.bottom(0)}, {{"expr", std::string("x0*x0")}, {"axes", axes}});
  const ValueId scale = p.channel_shared() ? blob : b.Reshape(blob, Spread(shape, 1, x.rank()));
  l.SetTop(0, b.Pointwise(StrCat("x0/sqrt(x1+", Number(eps), ")*x2"), {l.bottom(0), square, scale}));
}

}  // namespace

LayerDef NormalizeLayer() {
  return {
      .type = "Normalize",
      .doc =
          "x / sqrt(sum of x^2 + norm_param.eps) * scale for [N,C,..]. The sum is over all of an item "
          "(across_spatial, the default) or over the channels of each position. The scale is a trained blob, one "
          "number (channel_shared, the default) or one a channel, filled with 1 unless scale_filler is given.",
      .build = Build,
      .page = {
          .params = {"norm_param"},
          .formula = "`y = scale * x / sqrt(sum(x^2) + eps)`, of the shape of x `[N,C,..]`. The sum is over all "
                     "elements of an item (`across_spatial`, the default), else over the C channels of each position. "
                     "scale is blob 0: one number (`channel_shared`, the default), else `[C]`; filled with 1 unless "
                     "`scale_filler` is given. eps (default 1e-10) is added under the root.",
          .gradient =
              "x: `dx = s/r * dy - x / r^3 * sum(s dy x)` with s the scale, `r = sqrt(sum(x^2) + eps)` and sums over "
              "the elements of one norm. scale: `dscale = sum(dy x / r)` over all elements it multiplies.",
          .source = "Liu, Rabinovich, Berg, \"ParseNet: Looking Wider to See Better\", 2015, arXiv 1506.04579; the "
                    "semantics of normalize_layer of SSD's Caffe (Liu et al., arXiv 1512.02325). With a scale for each "
                    "channel "
                    "that layer's dx is another: it multiplies by the scale last, which is right only while all "
                    "channels have the same.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "norm"
  type: "Normalize"
  bottom: "x"
  top: "norm"
  norm_param {
    across_spatial: false
    channel_shared: false
    scale_filler { type: "constant" value: 20 }
  }
})"}};
}

}  // namespace moka
