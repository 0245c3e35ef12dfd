#include "optim/feed.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "proto/places.h"

namespace moka {

DataTypes Feed::types() {
  return [this](const LayerParameter& layer) {
    PipelineOptions options = options_;
    options.seed ^= StableHash(StrCat(name_, "/", layer.name()));
    sources_.push_back({layer.name(), OpenPipeline(layer, options), {}, {}});
    return sources_.back().pipeline->types();
  };
}

void Feed::Bind(const Program& program, const std::vector<DataLayer>& layers) {
  for (const DataLayer& layer : layers) {
    const auto find = [&] {
      return std::ranges::find_if(sources_, [&](const Source& s) { return s.layer == layer.param.name(); });
    };
    auto it = find();
    if (it == sources_.end() && IsPipelineLayer(layer.param.type())) {
      types()(layer.param);  // DummyData and MemoryData know their shapes without it, so it was not opened yet
      it = find();
    }
    if (it == sources_.end()) {
      throw ErrorAt(layer.param, "type",
                    StrCat("layer \"", layer.param.name(), "\" of type ", layer.param.type(),
                           " has no source of data, so the net cannot be trained or tested with it"),
                    "use a layer that reads data: Data, HDF5Data, ImageData, DummyData, MemoryData, ...");
    }
    it->tops.clear();
    it->unused.clear();
    it->unused.reserve(layer.tops.size());
    for (size_t i = 0; i < layer.tops.size(); ++i) {
      if (program.HasInput(layer.tops[i])) {
        it->tops.push_back(program.input(layer.tops[i]));
      } else {
        it->tops.push_back(it->unused.emplace_back(layer.types[i]).tensor());
      }
    }
  }
}

void Feed::Next() {
  for (Source& source : sources_) source.pipeline->Next(source.tops);
}

int64_t Feed::batch_size() const { return sources_.empty() ? 0 : sources_.front().pipeline->batch_size(); }
int64_t Feed::epoch_size() const { return sources_.empty() ? 0 : sources_.front().pipeline->epoch_size(); }

void Feed::SavePositions(std::map<std::string, int64_t>& positions) const {
  for (const Source& source : sources_) positions[StrCat(name_, "/", source.layer)] = source.pipeline->position();
}

void Feed::Seek(const std::map<std::string, int64_t>& positions) {
  for (Source& source : sources_) {
    const auto it = positions.find(StrCat(name_, "/", source.layer));
    source.pipeline->Seek(it == positions.end() ? 0 : it->second);
  }
}

int64_t Feed::bad_records() const {
  int64_t count = 0;
  for (const Source& source : sources_) count += source.pipeline->statistics().bad_records;
  return count;
}

std::vector<FeedStatistics> Feed::statistics() const {
  std::vector<FeedStatistics> all;
  for (const Source& source : sources_) all.push_back({source.layer, source.pipeline->statistics()});
  return all;
}

Pipeline* Feed::pipeline(std::string_view layer) const {
  const auto it = std::ranges::find_if(sources_, [&](const Source& s) { return s.layer == layer; });
  return it == sources_.end() ? nullptr : it->pipeline.get();
}

}  // namespace moka
