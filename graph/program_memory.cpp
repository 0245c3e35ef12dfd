// Allocates the arena once and makes the tensors of all values views into it. On the CPU the host's inputs and outputs
// are those tensors; on a GPU they have pinned twins, and copies in the stream.
#include "graph/program_memory.h"

#include <cstring>

#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"

namespace moka {

ProgramMemory::ProgramMemory(const Graph& graph, const StoragePlan& plan, MemoryReport& report)
    : arena_bytes_(plan.arena_bytes), constant_bytes_(plan.constant_bytes) {
  report.arena_bytes = plan.arena_bytes;
  report.bound_bytes = plan.bound_bytes;
  report.constant_bytes = plan.constant_bytes;
  for (const Storage& storage : plan.storages) {
    if (storage.place == StoragePlace::kInput) report.input_bytes += RoundUp(storage.bytes, kArenaAlignment).value();
    if (storage.place == StoragePlace::kState) report.state_bytes += storage.bytes;
  }
  input_bytes_ = report.input_bytes;
  for (const ValueId id : plan.largest) {
    const Node& node = graph.node(graph.value(id).producer);
    report.largest.emplace_back(
        StrCat(LayersText(node.origin.layer), ".", node.op->name, " ", graph.type(id).ToString()),
        graph.type(id).Bytes());
  }
}

DeviceBuffer ProgramMemory::NewMemory(int64_t bytes) const {
  if (stream_ == nullptr) return AllocatePinned(Device{}, bytes);
  DeviceBuffer memory = stream_->Allocate(bytes);
  stream_->Zero(memory.data(), bytes);
  return memory;
}

void ProgramMemory::Allocate(const Graph& graph, const StoragePlan& plan, ParameterStore& store, Stream* stream,
                             SharedArena* shared) {
  stream_ = stream;
  if (shared != nullptr && stream == nullptr) arena_ = shared->For(arena_bytes_);
  if (arena_ == nullptr) {
    own_arena_ = NewMemory(arena_bytes_);
    arena_ = own_arena_.data();
  }
  constants_ = NewMemory(constant_bytes_);
  input_memory_ = NewMemory(input_bytes_);
  Place(graph, plan, store);
  if (stream_ != nullptr) PlaceOnHost(graph);
  for (size_t i = 0; i < graph.assignments().size(); ++i) {
    if (!plan.copied[i]) continue;
    const Assignment& assignment = graph.assignments()[i];
    copies_.emplace_back(tensor(assignment.value), tensor(assignment.state));
  }
}

void ProgramMemory::Place(const Graph& graph, const StoragePlan& plan, ParameterStore& store) {
  tensors_.resize(static_cast<size_t>(graph.value_count()));
  std::vector<std::byte*> input_at(plan.storages.size(), nullptr);
  int64_t next_input = 0;
  for (size_t i = 0; i < plan.storages.size(); ++i) {
    if (plan.storages[i].place != StoragePlace::kInput) continue;
    input_at[i] = input_memory_.data() + next_input;
    next_input += RoundUp(plan.storages[i].bytes, kArenaAlignment).value();
  }
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const int index = plan.storage_of[static_cast<size_t>(id)];
    if (index < 0) continue;
    const Storage& storage = plan.storages[static_cast<size_t>(index)];
    void* data = nullptr;
    switch (storage.place) {
      case StoragePlace::kArena: data = arena_ + storage.offset; break;
      case StoragePlace::kConstant: data = constants_.data() + storage.offset; break;
      case StoragePlace::kInput: data = input_at[static_cast<size_t>(index)]; break;
      case StoragePlace::kState: data = store.tensor(graph.value(storage.owner).name).raw(); break;
    }
    tensors_[static_cast<size_t>(id)] = Tensor(graph.type(id), data);
    if (graph.value(id).kind == ValueKind::kInput) inputs_.emplace(graph.value(id).name, tensor(id));
  }
  for (const GraphOutput& output : graph.outputs()) outputs_.emplace(output.name, tensor(output.value));
}

void ProgramMemory::PlaceOnHost(const Graph& graph) {
  host_inputs_ = AllocatePinned(stream_->device(), input_bytes_);
  fed_ = inputs_;
  for (auto& [name, input] : inputs_) {
    input = Tensor(input.type(), host_inputs_.data() + (static_cast<std::byte*>(input.raw()) - input_memory_.data()));
  }
  Size bytes = 0;
  for (const GraphOutput& output : graph.outputs()) bytes += RoundUp(graph.type(output.value).Bytes(), kArenaAlignment);
  host_outputs_ = AllocatePinned(stream_->device(), bytes.value());
  fetched_ = outputs_;
  std::byte* next = host_outputs_.data();
  for (auto& [name, output] : outputs_) {
    const Tensor host(output.type(), next);
    next += RoundUp(output.type().Bytes(), kArenaAlignment).value();
    output = host;
  }
}

Tensor ProgramMemory::Take(TensorMap& tensors, std::string_view name) {
  const auto it = tensors.find(name);
  Require(it != tensors.end(), StrCat("the host fills or reads a tensor \"", name, "\""));
  const Tensor tensor = it->second;
  tensors.erase(it);
  return tensor;
}

void ProgramMemory::PutInputs() const {
  for (const auto& [name, input] : fed_) {
    stream_->CopyToDevice(static_cast<std::byte*>(input.raw()), static_cast<const std::byte*>(inputs_.at(name).raw()),
                          input.type().Bytes());
  }
}

void ProgramMemory::AssignStates() const {
  for (const auto& [from, to] : copies_) {
    if (stream_ == nullptr) {
      std::memcpy(to.raw(), from.raw(), static_cast<size_t>(to.type().Bytes()));
    } else {
      stream_->CopyOnDevice(static_cast<std::byte*>(to.raw()), static_cast<const std::byte*>(from.raw()),
                            to.type().Bytes());
    }
  }
}

void ProgramMemory::TakeOutputs() const {
  for (const auto& [name, output] : fetched_) {
    stream_->CopyToHost(static_cast<std::byte*>(outputs_.at(name).raw()), static_cast<const std::byte*>(output.raw()),
                        output.type().Bytes());
  }
}

Tensor ProgramMemory::OnHost(const Tensor& tensor, DeviceBuffer& room) const {
  if (stream_ == nullptr || tensor.raw() == nullptr) return tensor;
  const int64_t bytes = tensor.type().Bytes();
  if (room.bytes() < bytes) room = AllocatePinned(stream_->device(), bytes);
  stream_->CopyToHost(room.data(), static_cast<const std::byte*>(tensor.raw()), bytes);
  stream_->Synchronize();
  return {tensor.type(), room.data()};
}

}  // namespace moka
