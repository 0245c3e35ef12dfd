// Numbers are drawn by position, so that several ranks fill parts of one batch and a resumed run goes on with the same
// values.
#include "data/pipeline/dummy_pipeline.h"

#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/layer_fields.h"
#include "data/pipeline/sampling_fields.h"
#include "proto/nets/filler.h"
#include "proto/text/places.h"

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

DummyPipeline::DummyPipeline(const LayerParameter& layer, const PipelineOptions& options, uint64_t seed)
    : options_(options), seed_(seed) {
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
  // The position among the samples of all ranks together.
  int64_t place = position() * options_.world;
  if (options_.whole_batches) place += options_.rank * batch_size();
  for (size_t i = 0; i < tops.size(); ++i) {
    const std::span<float> out = tops[i].as<float>();
    const uint64_t stream = static_cast<uint64_t>(place) << 8U | i;
    if (options_.world > 1 && !options_.whole_batches && fillers_[i].type() != "constant") {
      FillRows(i, stream, out);
    } else {
      FillValues(fillers_[i], types_[i].shape, seed_, {stream, stream | kKeptStream}, out);
    }
  }
}

void DummyPipeline::FillRows(size_t top, uint64_t stream, std::span<float> out) {
  const Shape& own = types_[top].shape;
  if (own.rank() == 0) return FillValues(fillers_[top], own, seed_, {stream, stream | kKeptStream}, out);
  const Shape all = own.With(0, (Size(own[0]) * options_.world).value());
  whole_.resize(static_cast<size_t>(all.Count()));
  FillValues(fillers_[top], all, seed_, {stream, stream | kKeptStream}, whole_);
  const int64_t row = own.Count(1, own.rank());
  for (int64_t n = 0; n < own[0]; ++n) {
    std::copy_n(whole_.data() + (n * options_.world + options_.rank) * row, row, out.data() + n * row);
  }
}

namespace {

std::unique_ptr<Pipeline> OpenDummyData(const LayerParameter& layer, const PipelineOptions& options) {
  RefuseSampling(layer);
  return std::make_unique<DummyPipeline>(layer, options, DataSeed(options.seed, layer.name()));
}

}  // namespace

DataLayerRow DummyDataRow() { return {.type = "DummyData", .open = OpenDummyData, .has_records = false}; }

}  // namespace moka
