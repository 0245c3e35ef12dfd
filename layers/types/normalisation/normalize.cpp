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
  l.SetTop(0, b.Pointwise(StrCat("x0/sqrt(x1+", Number(eps), ")*x2"), {l.bottom(0), square, scale}));
}

}  // namespace

LayerDef NormalizeLayer() {
  return {
      .type = "Normalize",
      .doc =
          "x / sqrt(sum of x^2 + norm_param.eps) * scale for [N,C,..]. The sum is over all of an item "
          "(across_spatial, the default) or over the channels of each position. The scale is a trained blob, one "
          "number (channel_shared, the default) or one a channel, filled with 1 unless scale_filler is given; "
          "fix_scale: "
          "true does not train it. Where fix_scale is written (DSCLRCN) across_spatial and channel_shared are false "
          "and "
          "eps is 1e-6 by default. With "
          "normalize_param or a second top (NormFace): the channels of each position over their norm, without a scale; "
          "the second top is the norm.",
      .max_tops = 2,
      .build = BuildNormalize,
      .page = {
          .params = {"norm_param", "normalize_param", "softmax_param"},
          .formula =
              "`y = scale * x / sqrt(sum(x^2) + eps)`, of the shape of x `[N,C,..]`. The sum is over all "
              "elements of an item (`across_spatial`, the default), else over the C channels of each position. "
              "scale is blob 0: one number (`channel_shared`, the default), else `[C]`; filled with 1 unless "
              "`scale_filler` is given. eps (default 1e-10) is added under the root.\n\nWith normalize_param, "
              "softmax_param or a second top: `y = x / r`, `r = sqrt(sum(x^2) + 1e-6)`, or with normalize_type L1 "
              "`sum(|x|) + 1e-6`, sums over the channels of each position; top 1 is r `[N,1,..]`.",
          .gradient =
              "x: `dx = s/r * dy - x / r^3 * sum(s dy x)` with s the scale, `r = sqrt(sum(x^2) + eps)` and sums over "
              "the elements of one norm. scale: `dscale = sum(dy x / r)` over all elements it multiplies.\n\nWith "
              "normalize_param the derivative of top 0, with fix_gradient as if r were a constant; top 1 has a "
              "gradient "
              "only with bp_norm.",
          .source =
              "Liu, Rabinovich, Berg, \"ParseNet: Looking Wider to See Better\", 2015, arXiv 1506.04579; the "
              "semantics of normalize_layer of SSD's Caffe (Liu et al., arXiv 1512.02325). normalize_param: NormFace "
              "(Wang et al., arXiv 1704.06369), normalize_layer of happynear's Caffe, whose L1 gradient is not the "
              "derivative; here it is. A Normalize without any field is SSD's. With a scale for each channel SSD's "
              "dx is another: it multiplies by the scale last, which is right only while all channels have the same. "
              "fix_scale: DSCLRCN's Caffe (Liu, Han, arXiv 1610.01708).",
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
