// Local response normalisation (Krizhevsky et al. 2012): y = x * (k + alpha/n * sum of squares over n
// neighbours)^-beta.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

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
  return {.type = "LRN",
          .build = BuildLrn,
          .traits = {.top_shape = TopShape::kAxes, .drawn_as = DrawnAs::kScaling},
          .needs = NeedPictures,
          .params = {"lrn_param"}};
}

}  // namespace moka
