// Tops fed by the caller.
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  l.Check(l.param().input_param().shape_size() > 0, "input_param", "input_param.shape must be given");
  l.AddData(TopTypes(l, "input_param.shape", l.param().input_param().shape()));
}

}  // namespace

LayerDef InputLayer() {
  return {.type = "Input",
          .doc = "Tops fed by the caller, of input_param.shape (one for all tops or one each).",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = Build};
}

}  // namespace moka
