// L2 normalisation with a trained scale (ParseNet, arXiv 1506.04579; SSD's layer), and another layer of the name
// without one (NormFace, arXiv 1704.06369; happynear's): each position's channels over their norm. The second is meant
// where normalize_param or a second top is given, or softmax_param, whose normalize_type has no effect on it.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// y = x / r with r the L2 or L1 norm of a position's channels; the second top is r.
void BuildUnit(LayerBuilder& l) {
  const NormalizeParameter& p = l.param().normalize_param();
  const GraphBuilder& b = l.b();
  l.Check(!l.param().has_norm_param(), "norm_param",
          "norm_param belongs to a layer with one top and no normalize_param");
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  const bool is_l2 = p.normalize_type() == "L2";
  l.Check(is_l2 || p.normalize_type() == "L1", "normalize_param.normalize_type",
          StrCat("normalize_type must be L1 or L2, found \"", p.normalize_type(), "\""));
  const ValueId sum =
      b.Add1("reduce_sum", {l.bottom(0)}, {{"expr", std::string(is_l2 ? "x0*x0" : "abs(x0)")}, {"axes", Ints{1}}});
  const ValueId norm = b.Pointwise(is_l2 ? "sqrt(x0+1e-6)" : "x0+1e-6", {sum});
  l.SetTop(0, b.Pointwise("x0/x1", {l.bottom(0), p.fix_gradient() ? Constant(l, norm) : norm}));
  if (l.top_count() > 1) l.SetTop(1, p.bp_norm() ? norm : Constant(l, norm));
}

void BuildNormalize(LayerBuilder& l) {
  if (l.param().has_normalize_param() || l.param().has_softmax_param() || l.top_count() > 1) return BuildUnit(l);
  const NormalizeParameter& p = l.param().norm_param();
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  // DSCLRCN's layer, which has other defaults.
  const bool is_other = p.has_fix_scale();
  const bool across_spatial = p.has_across_spatial() || !is_other ? p.across_spatial() : false;
  const bool channel_shared = p.has_channel_shared() || !is_other ? p.channel_shared() : false;
  const double eps = p.has_eps() || !is_other ? Finite(l, "norm_param.eps", p.eps()) : 1e-6;
  l.Check(eps >= 0, "norm_param.eps", StrCat("norm_param.eps must not be negative, found ", eps));
  FillerParameter filler = p.scale_filler();
  if (!p.has_scale_filler()) filler.set_value(1);
  const Shape shape = channel_shared ? Shape{} : Shape{x[1]};
  ValueId blob = l.AddBlob(0, shape, filler, ParameterRole::kNorm, "norm_param.scale_filler");
  if (p.fix_scale()) blob = Constant(l, blob);
  Ints axes{1};
  for (int i = 2; across_spatial && i < x.rank(); ++i) axes.push_back(i);
  const ValueId square = b.Add1("reduce_sum", {l.bottom(0)}, {{"expr", std::string("x0*x0")}, {"axes", axes}});
  const ValueId scale = channel_shared ? blob : b.Reshape(blob, Spread(shape, 1, x.rank()));
  l.SetTop(0, l.Bottom(0) / Sqrt(Term::Of(square) + Decimal(eps)) * Term::Of(scale));
}

}  // namespace

LayerDef NormalizeLayer() {
  return {.type = "Normalize",
          .max_tops = 2,
          .build = BuildNormalize,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .params = {"norm_param", "normalize_param", "softmax_param"}};
}

}  // namespace moka
