// Local response normalisation (Krizhevsky et al. 2012): y = x * (k + alpha/n * sum of squares over n
// neighbours)^-beta.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const LRNParameter& p = l.param().lrn_param();
  const Shape& x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.local_size() % 2 == 1, "lrn_param.local_size",
          StrCat("lrn_param.local_size must be odd, found ", p.local_size()));
  const bool is_across = p.norm_region() == LRNParameter::ACROSS_CHANNELS;
  const double alpha = Finite(l, "lrn_param.alpha", p.alpha());
  const double beta = Finite(l, "lrn_param.beta", p.beta());
  const double k = Finite(l, "lrn_param.k", p.k());
  l.SetTop(0, l.b().Add1("lrn", {l.bottom(0)},
                         {{"size", int64_t{p.local_size()}},
                          {"alpha", alpha},
                          {"beta", beta},
                          {"k", is_across ? k : 1.0},
                          {"region", std::string(is_across ? "across" : "within")}}));
}

}  // namespace

LayerDef LrnLayer() {
  return {.type = "LRN",
          .doc =
              "x * (k + alpha/n * sum of x^2 over n)^-beta; n = local_size channels (ACROSS_CHANNELS) or a local_size "
              "square of the same channel (WITHIN_CHANNEL, where k is 1 as in Caffe).",
          .build = Build};
}

}  // namespace moka
