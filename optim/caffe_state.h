// Caffe's .solverstate: iteration and history, exchanged with the slots of a run. History blobs come in Caffe's order:
// the first slot of every learnable blob in net order (statistics too, as Caffe counts them), then the second slot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "graph/parameter_store.h"
#include "layers/layer.h"
#include "optim/state_file.h"
#include "proto/moka.pb.h"

namespace moka {

struct CaffeState {
  int64_t iteration = 0;
  std::string learned_net;  // file of the weights, as written
  int64_t current_step = 0;
  std::vector<StateTensor> history;
};

// Errors: kNoInput, kBadData naming what the file is instead (a .caffemodel, an HDF5 file, ...).
CaffeState ReadCaffeState(const std::filesystem::path& path);
void WriteCaffeState(const std::filesystem::path& path, const CaffeState& state);

// Steps of the rate taken by `iter`, as Caffe counts them for step and multistep; 0 for other policies.
int64_t CaffeCurrentStep(const SolverParameter& solver, int64_t iter);

// Slots of a store as Caffe's history; zeros where a blob has no such slot.
std::vector<StateTensor> HistoryFromStore(const SolverParameter& solver, std::span<const NetBlob> blobs,
                                          const ParameterStore& store);
// Errors: kBadData naming the blob when counts or shapes differ; the store is unchanged then.
void HistoryToStore(const SolverParameter& solver, std::span<const NetBlob> blobs, std::span<const StateTensor> history,
                    ParameterStore& store);

}  // namespace moka
