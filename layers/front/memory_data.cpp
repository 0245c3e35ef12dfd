// Data [N,C,H,W] and labels [N] fed by the caller.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const MemoryDataParameter& p = l.param().memory_data_param();
  l.Check(p.batch_size() >= 1 && p.channels() >= 1 && p.height() >= 1 && p.width() >= 1, "memory_data_param",
          "memory_data_param must give batch_size, channels, height and width, each at least 1");
  l.AddData({{DType::kFloat32, {p.batch_size(), p.channels(), p.height(), p.width()}, {}},
             {DType::kFloat32, {p.batch_size()}, {}}});
}

}  // namespace

LayerDef MemoryDataLayer() {
  return {.type = "MemoryData",
          .doc = "Images [batch_size,channels,height,width] and labels [batch_size] fed by the caller.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 2,
          .max_tops = 2,
          .build = Build};
}

}  // namespace moka
