// Spatial pyramid pooling (He et al., arXiv 1406.4729): level i pools the image into 2^i x 2^i bins. Kernels, pads and
// divisors are those of Caffe's pooling: the kernel is size/bins rounded up, what is missing is padded on both sides.
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/pooling/stochastic_pooling.h"

namespace moka {
namespace {

// Pooling attributes of a level; with_counts: also what the divisor of an average counts.
Attributes Level(const LayerBuilder& l, int64_t bins, bool with_counts) {
  const Shape x = l.shape(0);
  Ints kernel;
  Ints begin;
  Ints end;
  Ints count_end;
  for (int axis = 2; axis < 4; ++axis) {
    const int64_t k = (x[axis] + bins - 1) / bins;
    const int64_t missing = k * bins - x[axis];
    const int64_t pad = (missing + 1) / 2;
    l.Check(pad < k, "spp_param.pyramid_height",
            StrCat("a level of ", bins, " bins a side pools windows of ", k, " with a pad of ", pad, " along axis ",
                   axis, " of the bottom ", x.ToString(), "; take fewer levels"));
    kernel.push_back(k);
    begin.push_back(pad);
    end.push_back(missing - pad);
    count_end.push_back(missing - pad);
  }
  Attributes level{{"kernel", kernel}, {"stride", kernel}, {"pad_begin", begin}, {"pad_end", end}};
  if (!with_counts) return level;
  level.Set("count_begin", begin);
  level.Set("count_end", count_end);
  return level;
}

ValueId Pool(LayerBuilder& l, int64_t bins, uint64_t level) {
  switch (l.param().spp_param().pool()) {
    case SPPParameter::MAX: return l.b().Add("pool_max", {l.bottom(0)}, Level(l, bins, false))[0];
    case SPPParameter::AVE: return l.b().Add1("pool_average", {l.bottom(0)}, Level(l, bins, true));
    case SPPParameter::STOCHASTIC: break;
  }
  const Attributes geometry = Level(l, bins, false);
  l.Check(std::ranges::all_of(geometry.Get<Ints>("pad_begin"), [](int64_t pad) { return pad == 0; }), "spp_param.pool",
          StrCat("stochastic pooling takes no pad, but ", bins, " bins a side do not divide the bottom ",
                 l.shape(0).ToString()));
  return StochasticPool(l, geometry, level);
}

void BuildSpp(LayerBuilder& l) {
  const SPPParameter& p = l.param().spp_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  l.Check(p.pyramid_height() >= 1, "spp_param.pyramid_height", "spp_param.pyramid_height must be at least 1");
  std::vector<ValueId> levels;
  // A level that is too fine for the image throws long before the shift overflows.
  for (uint64_t i = 0; i < p.pyramid_height(); ++i) {
    const ValueId pooled = Pool(l, int64_t{1} << i, i);
    levels.push_back(p.pyramid_height() == 1 ? pooled
                                             : l.b().Reshape(pooled, {x[0], l.b().shape(pooled).Count() / x[0]}));
  }
  l.SetTop(0, levels.size() == 1 ? levels[0] : l.b().Add1("concat", levels, {{"axis", int64_t{1}}}));
}

}  // namespace

LayerDef SppLayer() { return {.type = "SPP", .build = BuildSpp, .params = {"spp_param"}}; }

}  // namespace moka
