// Data: tops read from a database by the data room, which tells their shapes.
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef DatabaseLayer() {
  return {.type = "Data",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 2,
          .build = BuildData,
          .traits = {.data = DataKind::kRecords, .drawn_as = DrawnAs::kData},
          .params = {"data_param", "transform_param", "sampling_param"}};
}

}  // namespace moka
