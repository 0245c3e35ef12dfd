// Caffe's .solverstate and .solverstate.h5: iteration and history, exchanged with the slots of a run or a checkpoint.
// History blobs come in Caffe's order: the first slot of every learnable blob in net order (statistics too, as Caffe
// counts them), then the second slot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/parameter_store.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/checkpoint.h"
#include "optim/checkpoint/state_file.h"
#include "proto/moka.pb.h"

namespace moka {

struct CaffeState {
  int64_t iteration = 0;
  std::string learned_net{};  // file of the weights, as written
  int64_t current_step = 0;
  std::optional<float> minimum_loss{};       // of the plateau policy (SSD's, NVIDIA's and Intel's Caffe)
  std::optional<int64_t> iter_last_event{};  // of the same
  std::vector<StateTensor> history{};
};

// Either format, told apart by content. Errors: kNoInput, kBadData naming what the file is instead (a .caffemodel,
// ...).
CaffeState ReadCaffeState(const std::filesystem::path& path);
CaffeState CaffeStateFromBytes(std::string_view bytes, const std::string& file);
// HDF5 if the name ends in .h5, else binary. Errors: kCantCreate, kBadData over protobuf's 2 GiB.
void WriteCaffeState(const std::filesystem::path& path, const CaffeState& state);

// Whether the solver's type is one of Caffe's six: the slots of Moka's own mean nothing to Caffe.
bool IsCaffeSolver(const SolverParameter& solver);

// Weights or a state in Caffe's HDF5 layout: the file's name ends in ".h5" or ".hdf5".
bool IsHdf5Name(const std::filesystem::path& path);

// Steps of the rate taken by `iter`, as Caffe counts them for step and multistep; 0 for other policies.
int64_t CaffeCurrentStep(const SolverParameter& solver, int64_t iter);

// The values of a slot by its name; empty if there is no such slot.
using SlotValues = std::function<std::vector<float>(const std::string& slot)>;
// Slots as Caffe's history; zeros where a blob has none. Errors: kUsage for optimisers that Caffe does not have.
std::vector<StateTensor> HistoryOf(const SolverParameter& solver, std::span<const NetBlob> blobs,
                                   const SlotValues& slots);
std::vector<StateTensor> HistoryFromStore(const SolverParameter& solver, std::span<const NetBlob> blobs,
                                          const ParameterStore& store);
// The same of a checkpoint, which needs no data to be there: its net says which blobs are shared. `learned_net` names
// the file its weights are written to. Errors: kUsage as HistoryOf, kBadData.
CaffeState CaffeStateOf(const Checkpoint& checkpoint, const std::string& learned_net);
// Errors: kBadData naming the blob when counts or shapes differ; the store is unchanged then.
void HistoryToStore(const SolverParameter& solver, std::span<const NetBlob> blobs, std::span<const StateTensor> history,
                    ParameterStore& store);

}  // namespace moka
