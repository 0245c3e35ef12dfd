// Tops fed by the caller.
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildInput(LayerBuilder& l) {
  l.Check(l.param().input_param().shape_size() > 0, "input_param", "input_param.shape must be given");
  l.AddData(TopTypes(l, "input_param.shape", l.param().input_param().shape()));
}

}  // namespace

LayerDef InputLayer() {
  return {.type = "Input",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildInput,
          .traits = {.data = DataKind::kInput, .drawn_as = DrawnAs::kData},
          .params = {"input_param"}};
}

}  // namespace moka
