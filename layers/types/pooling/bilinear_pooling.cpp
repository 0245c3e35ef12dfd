// The layers that nets of bilinear features end with (Lin et al., arXiv 1504.07889; Yu et al., arXiv 1807.09915): the
// sum over windows, the signed square root, and items of unit length.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/convolution/spatial_fields.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildSum(LayerBuilder& l) {
  const PoolingParameter& p = l.param().sum_pooling_param();
  const Shape x = l.shape(0);
  l.Check(p.pool() == PoolingParameter::SUM, "sum_pooling_param.pool",
          "SumPooling takes pool: SUM; Pooling has the other methods");
  WindowFields window = ReadWindow(l, x, "sum_pooling_param", p, !p.global_pooling());
  if (p.global_pooling()) window.kernel.assign(x.dims().begin() + 2, x.dims().end());
  const Ints none(window.kernel.size(), 0);
  l.Check(window.pad == none && window.pad_end == none, "sum_pooling_param.pad", "SumPooling takes no pad");
  Size elements = 1;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const int64_t in = x[static_cast<int>(i) + 2];
    const int64_t k = window.kernel[i];
    l.Check(k >= 1 && k <= in && (in - k) % window.stride[i] == 0, "sum_pooling_param.kernel_size",
            StrCat("windows of ", k, " with stride ", window.stride[i], " must fill axis ", i + 2, " of the bottom ",
                   x.ToString()));
    elements *= k;
  }
  const ValueId mean = l.b().Add1("pool_average", {l.bottom(0)},
                                  {{"kernel", window.kernel},
                                   {"stride", window.stride},
                                   {"pad_begin", none},
                                   {"pad_end", none},
                                   {"count_begin", none},
                                   {"count_end", none}});
  l.SetTop(0, Term::Of(mean) * elements.value());
}

void BuildRoot(LayerBuilder& l) {
  const ValueId x = l.bottom(0);
  const ValueId y = Constant(l, l.b().Pointwise("sign(x0)*sqrt(abs(x0))", {x}));
  // The original keeps the slope finite: 0.5 / (|y| + 0.03).
  l.SetTop(0, l.b().Pointwise("x1+(x0-x2)*0.5/(abs(x1)+0.03)", {x, y, Constant(l, x)}));
}

void BuildUnit(LayerBuilder& l) {
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 1, "bottom[0]", "the bottom needs at least one axis");
  Ints axes;
  for (int i = 1; i < x.rank(); ++i) axes.push_back(i);
  const ValueId square = l.b().Add1("reduce_sum", {l.bottom(0)}, {{"expr", std::string("x0*x0")}, {"axes", axes}});
  l.SetTop(0, l.b().Pointwise("x0/sqrt(x1+1e-7)", {l.bottom(0), square}));
}

}  // namespace

LayerDef SumPoolingLayer() { return {.type = "SumPooling", .build = BuildSum, .params = {"sum_pooling_param"}}; }

LayerDef SignedSqrtLayer() { return {.type = "SignedSqrt", .build = BuildRoot}; }

LayerDef L2NormalizeLayer() { return {.type = "L2Normalize", .build = BuildUnit}; }

}  // namespace moka
