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
  const ValueId scale = b.Pointwise(
      StrCat("select(ge(rand(x1,", RandomStreamOf(l), "),", Number(ratio), "),", Number(1 / (1 - ratio)), ",x0)"),
      {zeros, l.RandomKey()});
  l.SetTop(0, b.Pointwise("x0*x1", {l.bottom(0), scale}));
}

}  // namespace

LayerDef SpatialDropoutLayer() {
  return {
      .type = "SpatialDropout",
      .doc =
          "TRAIN: each channel of each item is zero with probability dropout_ratio (spatial_dropout_param, or "
          "dropout_param as Intel has it; default 0.5), otherwise x / (1 - dropout_ratio). TEST: x itself.",
      .build = BuildSpatialDropout,
      .page = {
          .params = {"spatial_dropout_param", "dropout_param"},
          .formula = "TRAIN: `y[n,c,..] = x[n,c,..] * m[n,c]`, where m is 0 with probability r = dropout_ratio "
                     "(default 0.5) and 1 / (1 - r) otherwise, one independent draw for each item and channel in "
                     "each run. TEST, or r = 0: `y = x`. r is in [0, 1).",
          .gradient = "TRAIN: `dx = dy * m` with the m of the forward pass. TEST: `dx = dy`.",
          .source = "Tompson et al., \"Efficient Object Localization Using Convolutional Networks\", arXiv "
                    "1411.4280; Intel's Caffe, whose layer reads dropout_param, while forks have "
                    "spatial_dropout_param: that one is read where it is given.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 dim: 4 dim: 4 } } }
layer {
  name: "drop"
  type: "SpatialDropout"
  bottom: "x"
  top: "drop"
  spatial_dropout_param { dropout_ratio: 0.3 }
})"}};
}

}  // namespace moka
