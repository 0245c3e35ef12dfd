#include "data/dummy_pipeline.h"

#include <algorithm>

#include "core/text.h"
#include "proto/filler.h"
#include "proto/places.h"

namespace moka {
namespace {

Shape ShapeOfTop(const LayerParameter& layer, int top) {
  const DummyDataParameter& param = layer.dummy_data_param();
  const int tops = layer.top_size();
  if (param.shape_size() > 0) {
    if (param.shape_size() != 1 && param.shape_size() != tops) {
      throw ErrorAt(layer, "dummy_data_param.shape",
                    StrCat("layer \"", layer.name(), "\" has ", tops, " tops but ", param.shape_size(),
                           " shapes, expected 1 or one a top"));
    }
    const BlobShape& shape = param.shape(param.shape_size() == 1 ? 0 : top);
    return Shape(std::vector<int64_t>(shape.dim().begin(), shape.dim().end()));
  }
  const auto dim = [&](std::string_view field, const google::protobuf::RepeatedField<uint32_t>& dims) -> int64_t {
    if (dims.size() == 1 || dims.size() == tops) return dims[dims.size() == 1 ? 0 : top];
    throw ErrorAt(layer, StrCat("dummy_data_param.", field),
                  StrCat("layer \"", layer.name(), "\" has ", tops, " tops but ", dims.size(), " values of ", field,
                         ", expected 1 or one a top"),
                  "or give a `shape`");
  };
  return {dim("num", param.num()), dim("channels", param.channels()), dim("height", param.height()),
          dim("width", param.width())};
}

constexpr uint64_t kKeptStream = uint64_t{1} << 63U;  // apart from the values' numbers

}  // namespace

DummyPipeline::DummyPipeline(const LayerParameter& layer, uint64_t seed) : seed_(seed) {
  const DummyDataParameter& param = layer.dummy_data_param();
  const int fillers = param.data_filler_size();
  if (layer.top_size() < 1) throw ErrorAt(layer, "top", StrCat("layer \"", layer.name(), "\" has no top"));
  if (fillers > 1 && fillers != layer.top_size()) {
    throw ErrorAt(layer, "dummy_data_param.data_filler",
                  StrCat("layer \"", layer.name(), "\" has ", layer.top_size(), " tops but ", fillers,
                         " fillers, expected none, 1 or one a top"));
  }
  for (int i = 0; i < layer.top_size(); ++i) {
    const FillerParameter filler = fillers == 0 ? FillerParameter() : param.data_filler(fillers == 1 ? 0 : i);
    fillers_.push_back(filler);
    top_names_.push_back(layer.top(i));
    types_.push_back({DType::kFloat32, ShapeOfTop(layer, i), {}});
    try {
      CheckFiller(filler, types_.back().shape);
    } catch (const Error& error) {
      throw ErrorAt(layer, StrCat("dummy_data_param.data_filler[", fillers == 1 ? 0 : i, "]"),
                    StrCat("layer \"", layer.name(), "\": ", error.text()), error.hint());
    }
  }
}

// A batch's numbers depend on (seed, top, position) only, so Seek needs nothing. Writing constants again each time
// costs little and is right whatever memory the caller passes.
void DummyPipeline::Deliver(std::span<const Tensor> tops, PipelineStatistics& /*statistics*/) {
  for (size_t i = 0; i < tops.size(); ++i) {
    const std::span<float> out = tops[i].as<float>();
    const uint64_t stream = static_cast<uint64_t>(position()) << 8U | i;
    FillValues(fillers_[i], types_[i].shape, seed_, {stream, stream | kKeptStream}, out);
  }
}

}  // namespace moka
