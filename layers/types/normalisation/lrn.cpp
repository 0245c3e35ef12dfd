// Local response normalisation (Krizhevsky et al. 2012): y = x * (k + alpha/n * sum of squares over n
// neighbours)^-beta.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

// The max pooling of BVLC's OpenCL branch, whose windows overlap by one; sizes round up.
ValueId Pooled(const LayerBuilder& l, ValueId x) {
  const PoolingParameter& p = l.param().lrn_param().pooling_param();
  constexpr const char* kField = "lrn_param.pooling_param";
  l.Check(l.param().lrn_param().norm_region() == LRNParameter::ACROSS_CHANNELS, "lrn_param.fuse_type",
          "FUSED_POOL_MAX is for ACROSS_CHANNELS");
  l.Check(p.pool() == PoolingParameter::MAX && p.kernel_size_size() == 1 && p.stride_size() == 1 && p.pad_size() == 0 &&
              p.dilation_size() == 0 && !p.global_pooling(),
          kField, "lrn_param.pooling_param must be pool MAX with kernel_size and stride alone");
  const int64_t k = p.kernel_size(0);
  const int64_t s = p.stride(0);
  l.Check(s >= 1 && k == s + 1 && k <= 5, kField,
          StrCat("the fused pooling's kernel_size is at most 5 and one more than its stride, found ", k, " and ", s));
  Ints end;
  for (const int axis : {2, 3}) {
    const int64_t in = l.shape(0)[axis];
    l.Check(in >= k, kField, StrCat("the kernel ", k, " is larger than the bottom ", l.shape(0).ToString()));
    const int64_t windows = (in - k + s - 1) / s + 1;
    end.push_back((windows - 1) * s + k - in);
  }
  return l.b().Add("pool_max", {x},
                   {{"kernel", Ints{k, k}}, {"stride", Ints{s, s}}, {"pad_begin", Ints{0, 0}}, {"pad_end", end}})[0];
}

void BuildLrn(LayerBuilder& l) {
  const LRNParameter& p = l.param().lrn_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.local_size() % 2 == 1, "lrn_param.local_size",
          StrCat("lrn_param.local_size must be odd, found ", p.local_size()));
  const bool is_across = p.norm_region() == LRNParameter::ACROSS_CHANNELS;
  const double alpha = Finite(l, "lrn_param.alpha", p.alpha());
  const double beta = Finite(l, "lrn_param.beta", p.beta());
  const double k = Finite(l, "lrn_param.k", p.k());
  const ValueId y = l.b().Add1("lrn", {l.bottom(0)},
                               {{"size", int64_t{p.local_size()}},
                                {"alpha", alpha},
                                {"beta", beta},
                                {"k", is_across ? k : 1.0},
                                {"region", std::string(is_across ? "across" : "within")}});
  l.SetTop(0, p.fuse_type() == LRNParameter::FUSED_POOL_MAX ? Pooled(l, y) : y);
}

}  // namespace

LayerDef LrnLayer() {
  return {
      .type = "LRN",
      .doc =
          "Local response normalisation of [N,C,H,W]: x * (k + alpha/n * sum of x^2 over n)^-beta; n = local_size "
          "channels (ACROSS_CHANNELS) or a local_size square of the same channel (WITHIN_CHANNEL, where k is 1 as in "
          "Caffe). With fuse_type a max pooling follows.",
      .build = BuildLrn,
      .page = {
          .params = {"lrn_param"},
          .formula = "`y = x * s^-beta`; y has x's shape [N,C,H,W].\n\nACROSS_CHANNELS (the default): `s = k + alpha / "
                     "n * sum of x^2` over the n = local_size channels around the element's own, at its place. "
                     "WITHIN_CHANNEL: `s = 1 + alpha / n^2 * sum of x^2` over the n x n square around the element in "
                     "its channel; k is not used. What lies outside counts as 0, and the divisor stays. local_size is "
                     "odd; defaults: 5, alpha 1, beta 0.75, k 1.\n\nfuse_type FUSED_POOL_MAX (ACROSS_CHANNELS): the "
                     "top is what a Pooling layer of pooling_param's kernel_size and stride, its MAX of windows k x k "
                     "at every s-th pixel, `k = s + 1 <= 5`, would make of y.",
          .gradient = "`dx_j = dy_j * s_j^-beta - 2 * a * beta * x_j * sum of dy_i * x_i * s_i^(-beta - 1)` over the "
                      "elements i whose window holds j; a is `alpha / n` or `alpha / n^2`.",
          .source = "ImageNet classification with deep convolutional neural networks (Krizhevsky, Sutskever, Hinton, "
                    "2012, section 3.3); BVLC Caffe's lrn_layer. engine is read and ignored. fuse_type is that of "
                    "BVLC's OpenCL branch, which takes it in TEST alone.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 6 dim: 4 dim: 4 } } }
layer {
  name: "norm"
  type: "LRN"
  bottom: "x"
  top: "norm"
  lrn_param { local_size: 5 alpha: 1e-4 beta: 0.75 }
})"}};
}

}  // namespace moka
