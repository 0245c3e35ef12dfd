// Batches are written by the pipeline straight into the program's input memory where its layer allows it; on a GPU they
// come through data/pipeline/device_prefetch.h.
#include "optim/step/feed.h"

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/pipeline/open_pipeline.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"

namespace moka {

PipelineOptions InPhaseOf(const NetParameter& net, Phase otherwise, PipelineOptions options) {
  options.phase = net.state().has_phase() ? net.state().phase() : otherwise;
  return options;
}

DataTypes Feed::types() {
  return [this](const LayerParameter& layer) {
    const auto opened = std::ranges::find(sources_, layer.name(), &Source::layer);
    if (opened != sources_.end()) return opened->pipeline->types();  // the net is built once more
    PipelineOptions options = options_;
    options.seed ^= StableHash(StrCat(name_, "/", orders_.Of(layer)));
    Source& source = sources_.emplace_back();
    source.layer = layer.name();
    source.pipeline = OpenPipeline(layer, options);
    source.batch_size = source.pipeline->batch_size();
    source.epoch_size = source.pipeline->epoch_size();
    CompareOrders(source);
    return source.pipeline->types();
  };
}

void Feed::CompareOrders(Source& opened) const {
  constexpr int64_t kCompared = 64;
  if (orders_.IsAgain(opened.layer)) return;  // its order is meant to be another
  for (const Source& before : sources_) {
    const bool are_paired = before.pipeline && &before != &opened && before.epoch_size == opened.epoch_size &&
                            !orders_.IsAgain(before.layer);
    if (!are_paired || opened.pipeline->RecordAt(0) < 0 || before.pipeline->RecordAt(0) < 0) continue;
    for (int64_t n = 0; n < std::min(kCompared, opened.epoch_size); ++n) {
      const int64_t first = before.pipeline->RecordAt(n);
      const int64_t second = opened.pipeline->RecordAt(n);
      if (first == second) continue;
      if (options_.rank == 0) {
        LogWarning(StrCat(name_, " net: layers \"", before.layer, "\" and \"", opened.layer, "\" have ",
                          opened.epoch_size, " records each, in different orders: record ", first,
                          " of one comes with ", second,
                          " of the other. If they are pairs, give both the same shuffle, rand_skip and ",
                          "sampling fields (and HDF5 data in one file)"));
      }
      break;
    }
  }
}

void Feed::Bind(Program& program, const std::vector<DataLayer>& layers) {
  program_ = &program;
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
    // The caller may fill such a layer anew between two steps, so it is not read ahead.
    const bool is_filled = TraitsOf(layer.param).data == DataKind::kProgram;
    if (program.stream() != nullptr && IsPipelineLayer(layer.param.type()) && !is_filled) {
      BindOnDevice(*it, layer.tops);
      continue;
    }
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

void Feed::BindOnDevice(Source& source, const std::vector<std::string>& tops) {
  source.ahead = std::make_unique<DevicePrefetch>(std::move(source.pipeline), program_->stream());
  for (const std::string& top : tops) {
    source.tops.push_back(program_->HasInput(top) ? program_->TakeInput(top) : Tensor());
  }
}

void Feed::Next() {
  for (Source& source : sources_) {
    if (!source.ahead) {
      source.pipeline->Next(source.tops);
      continue;
    }
    const std::span<const Tensor> batch = source.ahead->Next();
    for (size_t i = 0; i < batch.size(); ++i) {
      if (source.tops[i].raw() == nullptr) continue;  // nobody reads it
      program_->stream()->CopyOnDevice(static_cast<std::byte*>(source.tops[i].raw()),
                                       static_cast<const std::byte*>(batch[i].raw()), batch[i].type().Bytes());
    }
  }
}

int64_t Feed::batch_size() const { return sources_.empty() ? 0 : sources_.front().batch_size; }
int64_t Feed::epoch_size() const { return sources_.empty() ? 0 : sources_.front().epoch_size; }

int64_t BatchesOfData(const Feed& feed) {
  constexpr int64_t kWithoutEnd = 50;
  const int64_t batch = std::max<int64_t>(1, feed.batch_size());
  return feed.epoch_size() > 0 ? (feed.epoch_size() + batch - 1) / batch : kWithoutEnd;
}

void Feed::SavePositions(std::map<std::string, int64_t>& positions) const {
  for (const Source& source : sources_) {
    const int64_t own = source.ahead ? source.ahead->position() : source.pipeline->position();
    positions[StrCat(name_, "/", source.layer)] = own * options_.world;
  }
}

void Feed::Seek(const std::map<std::string, int64_t>& positions) {
  for (Source& source : sources_) {
    const auto it = positions.find(StrCat(name_, "/", source.layer));
    const int64_t sample = it == positions.end() ? 0 : it->second / options_.world;
    source.ahead ? source.ahead->Seek(sample) : source.pipeline->Seek(sample);
  }
}

int64_t Feed::bad_records() const {
  int64_t count = 0;
  for (const FeedStatistics& source : statistics()) count += source.statistics.bad_records;
  return count;
}

std::vector<FeedStatistics> Feed::statistics() const {
  std::vector<FeedStatistics> all;
  for (const Source& source : sources_) {
    all.push_back({source.layer, source.ahead ? source.ahead->statistics() : source.pipeline->statistics()});
  }
  return all;
}

Pipeline* Feed::pipeline(std::string_view layer) const {
  const auto it = std::ranges::find_if(sources_, [&](const Source& s) { return s.layer == layer; });
  return it == sources_.end() ? nullptr : it->pipeline.get();
}

}  // namespace moka
