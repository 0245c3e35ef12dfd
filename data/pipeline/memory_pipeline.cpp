// MemoryData copies what it was given, so that the caller's buffers may go.
#include "data/pipeline/memory_pipeline.h"

#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/layer_fields.h"
#include "data/pipeline/sampling_fields.h"
#include "proto/text/places.h"

namespace moka {

MemoryPipeline::MemoryPipeline(const LayerParameter& layer) {
  const MemoryDataParameter& param = layer.memory_data_param();
  CheckTops(layer);
  Shape shape{param.batch_size(), param.channels(), param.height(), param.width()};
  if (param.dim_size() > 0 && param.dim_size() <= Shape::kMaxRank) {
    shape = Shape(std::vector<int64_t>(param.dim().begin(), param.dim().end()));
  }
  if (shape.Count() < 1) {
    throw ErrorAt(layer, "memory_data_param",
                  StrCat("layer \"", layer.name(), "\": shape ", shape.ToString(),
                         "; set batch_size, channels, height and width"));
  }
  types_.push_back({DType::kFloat32, shape, {}});
  if (layer.top_size() > 1) types_.push_back({DType::kFloat32, Shape{shape[0]}, {}});
  top_names_ = {layer.top().begin(), layer.top().end()};
}

void MemoryPipeline::Fill(std::span<const float> data, std::span<const float> labels) {
  const int64_t count = types_[0].shape.Count(1, types_[0].shape.rank());
  const auto samples = static_cast<int64_t>(labels.size());
  if (samples < 1 || samples % batch_size() != 0) {
    throw Error(ErrorKind::kBadData, StrCat(samples, " samples, expected a multiple of the batch size ", batch_size()));
  }
  if (static_cast<int64_t>(data.size()) != (Size(samples) * count).value()) {
    throw Error(ErrorKind::kBadData, StrCat(data.size(), " values for ", samples, " samples of ", count));
  }
  data_.assign(data.begin(), data.end());
  labels_.assign(labels.begin(), labels.end());
}

void MemoryPipeline::Deliver(std::span<const Tensor> tops, PipelineStatistics& /*statistics*/) {
  if (labels_.empty()) throw Error(ErrorKind::kNoInput, "a MemoryData layer was not given its samples");
  const int64_t count = types_[0].shape.Count(1, types_[0].shape.rank());
  const int64_t first = position() % epoch_size();
  for (int64_t i = 0; i < batch_size(); ++i) {
    const int64_t sample = (first + i) % epoch_size();
    std::copy_n(data_.data() + sample * count, count, tops[0].as<float>().data() + i * count);
    if (tops.size() > 1) tops[1].as<float>()[static_cast<size_t>(i)] = labels_[static_cast<size_t>(sample)];
  }
}

namespace {

std::unique_ptr<Pipeline> OpenMemoryData(const LayerParameter& layer, const PipelineOptions& /*options*/) {
  RefuseSampling(layer);
  return std::make_unique<MemoryPipeline>(layer);
}

}  // namespace

DataLayerRow MemoryDataRow() { return {.type = "MemoryData", .open = OpenMemoryData, .has_records = false}; }

}  // namespace moka
