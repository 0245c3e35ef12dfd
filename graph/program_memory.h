// The memory of a frozen program: arena, constants and inputs on its device, and what the host fills before a step and
// reads after it. On the CPU these are one; on a GPU inputs and outputs lie once more in pinned memory of the host, and
// the step begins and ends with their copies.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "graph/graph.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "graph/shared_arena.h"
#include "graph/storage.h"

namespace moka {

class ProgramMemory {
 public:
  using TensorMap = std::map<std::string, Tensor, std::less<>>;

  // Fills in the report's bytes. Allocates nothing yet.
  ProgramMemory(const Graph& graph, const StoragePlan& plan, MemoryReport& report);

  // Errors: kUnavailable when it does not fit. Requires: a stream of the store's device, null on the CPU; `shared`,
  // null or an arena of the CPU, outlives this.
  void Allocate(const Graph& graph, const StoragePlan& plan, ParameterStore& store, Stream* stream,
                SharedArena* shared);

  std::byte* arena() const { return arena_; }
  // Returns the device's tensor of a value.
  const Tensor& tensor(ValueId id) const { return tensors_[static_cast<size_t>(id)]; }
  // These are the host's, by name.
  const TensorMap& inputs() const { return inputs_; }
  const TensorMap& outputs() const { return outputs_; }

  // An input on the device, which PutInputs leaves alone from now on; an output there, left alone by TakeOutputs.
  Tensor TakeInput(std::string_view name) { return Take(fed_, name); }
  Tensor TakeOutput(std::string_view name) { return Take(fetched_, name); }

  // Into the stream; on the CPU at once, or nothing where there is nothing to do. The inputs' copies to the device; new
  // values' to the states they were not written over; the outputs' to the host.
  void PutInputs() const;
  void AssignStates() const;
  void TakeOutputs() const;
  // Returns the tensor's values on the host: the tensor itself on the CPU, else a copy in `room`. Waits for the stream.
  Tensor OnHost(const Tensor& tensor, DeviceBuffer& room) const;

 private:
  DeviceBuffer NewMemory(int64_t bytes) const;
  void Place(const Graph& graph, const StoragePlan& plan, ParameterStore& store);
  void PlaceOnHost(const Graph& graph);
  static Tensor Take(TensorMap& tensors, std::string_view name);

  int64_t arena_bytes_ = 0;
  int64_t constant_bytes_ = 0;
  int64_t input_bytes_ = 0;
  Stream* stream_ = nullptr;
  DeviceBuffer own_arena_;  // unless it is shared
  std::byte* arena_ = nullptr;
  DeviceBuffer constants_;
  DeviceBuffer input_memory_;
  DeviceBuffer host_inputs_;     // GPU: laid out as input_memory_
  DeviceBuffer host_outputs_;    // GPU
  std::vector<Tensor> tensors_;  // by ValueId
  TensorMap inputs_;
  TensorMap outputs_;
  TensorMap fed_;                                  // GPU: inputs on the device that the host fills
  TensorMap fetched_;                              // GPU: outputs on the device that the host reads
  std::vector<std::pair<Tensor, Tensor>> copies_;  // new value -> state
};

}  // namespace moka
