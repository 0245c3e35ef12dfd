// y = x if x > 0, else slope * x with a trained slope a channel (He et al., arXiv 1502.01852).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

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
  const Term each = l.Bottom(0);
  l.SetTop(0, Select(each > 0, each, Term::Of(slope) * each));
}

}  // namespace

LayerDef PReluLayer() {
  return {.type = "PReLU",
          .build = BuildPrelu,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .needs = NeedPictures,
          .params = {"prelu_param"}};
}

}  // namespace moka
