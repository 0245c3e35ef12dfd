// Results are sent without waiting (comm/transport/point_to_point.h), so that a stage goes on with its next micro-batch
// while its neighbours read.
#include "optim/pipeline/pipeline_stage.h"

#include <algorithm>
#include <cstring>

#include "core/size.h"

namespace moka {
namespace {

void Put(std::span<const std::byte> bytes, const Tensor& tensor) {
  if (tensor.raw() != nullptr) std::memcpy(tensor.raw(), bytes.data(), static_cast<size_t>(tensor.type().Bytes()));
}

}  // namespace

PipelineStage::PipelineStage(Communicator& world, const StageGraphs& graphs, Program& forward, Program& backward,
                             int micro_batches)
    : channel_(world),
      forward_(forward),
      backward_(backward),
      tasks_(OneForwardOneBackward(world.size(), micro_batches, world.rank())),
      slots_(MicroBatchesUnderWay(world.size(), micro_batches, world.rank())),
      values_(Bind(graphs.values, world.rank(), slots_, forward, forward, backward)),
      gradients_(Bind(graphs.gradients, world.rank(), slots_, backward, forward, backward)) {}

std::vector<PipelineStage::Kept> PipelineStage::Bind(const std::vector<KeptValue>& values, int stage, int slots,
                                                     const Program& maker, const Program& forward,
                                                     const Program& backward) {
  std::vector<Kept> bound;
  for (const KeptValue& value : values) {
    Kept& kept = bound.emplace_back();
    kept.from = value.from;
    kept.is_received = !value.is_data && value.from != stage;
    if (value.is_data) {
      if (forward.HasInput(value.name)) kept.made = forward.input(value.name);
    } else if (!kept.is_received) {
      kept.made = maker.output(value.name);
    }
    if (kept.is_received && value.is_read_by_forward && forward.HasInput(value.name)) {
      kept.to_forward = forward.input(value.name);
    }
    if (value.is_read_by_backward && backward.HasInput(value.name)) kept.to_backward = backward.input(value.name);
    if (!kept.is_received) kept.readers = value.readers;
    const int64_t bytes = RoundUp(value.type.Bytes(), Transport::kUnit).value();
    kept.slots.assign(static_cast<size_t>(slots), std::vector<std::byte>(static_cast<size_t>(bytes)));
  }
  return bound;
}

void PipelineStage::Run(const std::function<void(int)>& load, const std::function<void(int)>& look) {
  for (const PipelineTask& task : tasks_) {
    const int slot = task.micro_batch % slots_;
    if (task.is_forward) {
      load(task.micro_batch);
      Forward(slot);
      look(task.micro_batch);
    } else {
      Backward(slot);
    }
  }
  channel_.Finish();
}

void PipelineStage::Forward(int slot) {
  for (Kept& kept : values_) {
    std::vector<std::byte>& bytes = kept.slots[static_cast<size_t>(slot)];
    if (!kept.is_received) continue;
    channel_.Receive(kept.from, bytes);
    Put(bytes, kept.to_forward);
  }
  forward_.Run();
  for (Kept& kept : values_) {
    std::vector<std::byte>& bytes = kept.slots[static_cast<size_t>(slot)];
    if (kept.made.raw() == nullptr) continue;
    if (!kept.readers.empty()) channel_.Finish(bytes);  // of the micro-batch that had the slot before
    std::memcpy(bytes.data(), kept.made.raw(), static_cast<size_t>(kept.made.type().Bytes()));
    for (const int reader : kept.readers) channel_.Send(reader, bytes);
  }
}

void PipelineStage::Backward(int slot) {
  for (Kept& kept : values_) Put(kept.slots[static_cast<size_t>(slot)], kept.to_backward);
  for (Kept& kept : gradients_) {
    if (!kept.is_received) continue;
    std::vector<std::byte>& bytes = kept.slots[static_cast<size_t>(slot)];
    channel_.Receive(kept.from, bytes);
    Put(bytes, kept.to_backward);
  }
  backward_.Run();
  for (Kept& kept : gradients_) {
    if (kept.is_received) continue;
    std::vector<std::byte>& bytes = kept.slots[static_cast<size_t>(slot)];
    channel_.Finish(bytes);
    std::memcpy(bytes.data(), kept.made.raw(), static_cast<size_t>(kept.made.type().Bytes()));
    for (const int reader : kept.readers) channel_.Send(reader, bytes);
  }
}

}  // namespace moka
