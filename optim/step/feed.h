// The link between the data layers of a net and the inputs of its program: opens a pipeline a layer while the net is
// built, then writes each batch straight into the program's input memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "data/pipeline/device_prefetch.h"
#include "data/pipeline/pipeline.h"
#include "graph/program.h"
#include "layers/net/layer.h"
#include "optim/step/order_names.h"

namespace moka {

// The statistics of one data layer.
struct FeedStatistics {
  std::string layer;
  PipelineStatistics statistics;
};

// `options` in the phase of the net's state, which train_state or the net itself may name, or in `otherwise`.
PipelineOptions InPhaseOf(const NetParameter& net, Phase otherwise, PipelineOptions options);

class Feed {
 public:
  // `name` ("train", "test0") is the prefix of positions and part of each pipeline's seed (optim/step/order_names.h).
  Feed(std::string name, const PipelineOptions& options) : name_(std::move(name)), options_(options) {}

  // For NetOptions::data_types: opens the layer's pipeline.
  DataTypes types();
  // Where batches go. Requires: the program was made from the net built with types(), has not run, and outlives the
  // feed's use. Errors: kConfig when the program has an input that no data layer fills.
  void Bind(Program& program, const std::vector<DataLayer>& layers);
  // Writes the next batch of every layer. To a GPU's program batches come ahead (not those of MemoryData), on a stream
  // of their own, and are put into its inputs by work of its stream.
  void Next();

  // Samples of one batch and records of the data set, by the first pipeline; 0 when there is none.
  int64_t batch_size() const;
  int64_t epoch_size() const;
  // Ranks that share the samples.
  int64_t ranks() const { return options_.world; }
  // Positions are those of all ranks together, so that another number of them can go on. SavePositions adds
  // "name/layer" -> samples consumed; Seek goes there (a layer that is not named starts at 0).
  void SavePositions(std::map<std::string, int64_t>& positions) const;
  void Seek(const std::map<std::string, int64_t>& positions);
  int64_t bad_records() const;
  std::vector<FeedStatistics> statistics() const;
  // For MemoryData layers: the caller fills it. Null if there is no such layer.
  Pipeline* pipeline(std::string_view layer) const;

 private:
  struct Source {
    std::string layer;
    std::unique_ptr<Pipeline> pipeline;     // null once `ahead` has it
    std::unique_ptr<DevicePrefetch> ahead;  // GPU
    std::vector<Tensor> tops;               // the program's inputs
    int64_t batch_size = 0;
    int64_t epoch_size = 0;
    std::vector<OwnedTensor> unused;  // tops the program does not read
  };

  void BindOnDevice(Source& source, const std::vector<std::string>& tops);
  // Warns of layers of as many records whose orders differ.
  void CompareOrders(Source& opened) const;

  std::string name_;
  PipelineOptions options_;
  Program* program_ = nullptr;
  std::vector<Source> sources_;
  OrderNames orders_;
};

// Returns the batches that take the feed's data once; 50 where they have no end.
int64_t BatchesOfData(const Feed& feed);

}  // namespace moka
