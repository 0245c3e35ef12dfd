// Data [N,C,H,W] and labels [N] fed by the caller.
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildMemoryData(LayerBuilder& l) {
  const MemoryDataParameter& p = l.param().memory_data_param();
  if (p.dim_size() > 0) {
    const std::vector<int64_t> dims(p.dim().begin(), p.dim().end());
    l.Check(!p.has_batch_size() && !p.has_channels() && !p.has_height() && !p.has_width(), "memory_data_param.dim",
            "dim says all of the shape; batch_size, channels, height and width must not be given beside it");
    l.Check(p.dim_size() <= Shape::kMaxRank, "memory_data_param.dim", "memory_data_param.dim has too many dimensions");
    std::vector<TensorType> types = {{DType::kFloat32, Shape(dims), {}}, {DType::kFloat32, {dims[0]}, {}}};
    types.resize(static_cast<size_t>(l.top_count()));
    return l.AddData(types);
  }
  l.Check(p.batch_size() >= 1 && p.channels() >= 1 && p.height() >= 1 && p.width() >= 1, "memory_data_param",
          "memory_data_param must give batch_size, channels, height and width, each at least 1");
  std::vector<TensorType> types = {{DType::kFloat32, {p.batch_size(), p.channels(), p.height(), p.width()}, {}},
                                   {DType::kFloat32, {p.batch_size()}, {}}};
  types.resize(static_cast<size_t>(l.top_count()));
  l.AddData(types);
}

}  // namespace

LayerDef MemoryDataLayer() {
  return {.type = "MemoryData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 2,
          .build = BuildMemoryData,
          .traits = {.data = DataKind::kProgram, .drawn_as = DrawnAs::kData},
          .params = {"memory_data_param"}};
}

}  // namespace moka
