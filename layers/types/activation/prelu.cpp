// y = x if x > 0, else slope * x with a trained slope a channel (He et al., arXiv 1502.01852).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPrelu(LayerBuilder& l) {
  const PReLUParameter& p = l.param().prelu_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() >= 2, "bottom[0]", StrCat("the bottom needs at least 2 axes, found ", x.ToString()));
  FillerParameter filler = p.filler();
  if (!p.has_filler()) filler.set_value(0.25F);
  const Shape shape = p.channel_shared() ? Shape{} : Shape{x[1]};
  const int rank = x.rank();
  ValueId slope = l.AddBlob(0, shape, filler, ParameterRole::kWeight, "prelu_param.filler");
  if (!p.channel_shared()) slope = l.b().Reshape(slope, Spread(shape, 1, rank));
  l.SetTop(0, l.b().Pointwise("select(gt(x0,0),x0,x1*x0)", {l.bottom(0), slope}));
}

}  // namespace

LayerDef PReluLayer() {
  return {
      .type = "PReLU",
      .doc =
          "x if x > 0, else slope * x for [N,C,..]; the trained slopes are one a channel, or one for all "
          "(channel_shared). The top has the bottom's shape.",
      .build = BuildPrelu,
      .page = {
          .params = {"prelu_param"},
          .formula = "`y = x` where `x > 0`, else `slope * x`, for x `[N,C,..]`. Blob 0 is the slope: `[C]`, or one "
                     "number with `channel_shared`; filled with 0.25 unless `filler` is given.",
          .gradient = "x: `dx = dy` where `x > 0`, else `slope * dy`. slope: `dslope = sum(dy x)` over the elements it "
                      "multiplies, those with `x <= 0`.",
          .source = "He et al., \"Delving Deep into Rectifiers\", 2015, arXiv 1502.01852; BVLC Caffe's prelu_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "prelu"
  type: "PReLU"
  bottom: "x"
  top: "prelu"
  prelu_param { filler { type: "constant" value: 0.25 } }
})"}};
}

}  // namespace moka
