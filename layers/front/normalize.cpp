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
  return {.type = "Normalize",
          .doc =
              "x / sqrt(sum of x^2 + norm_param.eps) * scale for [N,C,..]. The sum is over all of an item "
              "(across_spatial, the default) or over the channels of each position. The scale is a trained blob, one "
              "number (channel_shared, the default) or one a channel, filled with 1 unless scale_filler is given.",
          .build = Build};
}

}  // namespace moka
