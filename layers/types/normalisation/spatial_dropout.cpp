// Dropout of whole channels (Tompson et al., arXiv 1411.4280; Intel's layer).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"

namespace moka {
namespace {

void BuildSpatialDropout(LayerBuilder& l) {
  // Intel's layer reads dropout_param; forks have a message of its own.
  const bool is_own = l.param().has_spatial_dropout_param();
  const std::string field = is_own ? "spatial_dropout_param.dropout_ratio" : "dropout_param.dropout_ratio";
  const double ratio = Finite(
      l, field, is_own ? l.param().spatial_dropout_param().dropout_ratio() : l.param().dropout_param().dropout_ratio());
  l.Check(ratio >= 0 && ratio < 1, field, StrCat(field, " must be in [0, 1), found ", ratio));
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom must be [N,C,..], found ", x.ToString()));
  if (l.phase() == TEST || ratio == 0) return l.SetTop(0, l.bottom(0));
  const GraphBuilder& b = l.b();
  // One draw an item and channel: the zeros only give the shape.
  const ValueId zeros = b.Full(Spread({x[0], x[1]}, 0, x.rank()), 0);
  const Term kept = Select(Uniform(l) >= Decimal(ratio), Decimal(1 / (1 - ratio)), Term::Of(zeros));
  const ValueId scale = b.Pointwise(kept, {zeros, l.RandomKey()});
  l.SetTop(0, b.Pointwise("x0*x1", {l.bottom(0), scale}));
}

}  // namespace

LayerDef SpatialDropoutLayer() {
  return {.type = "SpatialDropout", .build = BuildSpatialDropout, .params = {"spatial_dropout_param", "dropout_param"}};
}

}  // namespace moka
