// Weights, statistics and slots of a train net as the store has them: whole, or where they are split, sharded or of a
// stage this rank's alone. Whoever reads or writes them all between two steps does it by way of here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/transport/communicator.h"
#include "graph/parameter_store.h"
#include "optim/checkpoint/state_file.h"
#include "optim/step/training_graph.h"

namespace moka {

class TrainedStates {
 public:
  // The states of a net that is not built yet: none.
  TrainedStates() = default;
  // `stage_world`: the ranks of a pipeline; null: there is none. The step's exchange and both communicators must
  // outlive it.
  TrainedStates(const TrainingGraph& step, Communicator* stage_world);

  // The slots of this rank.
  const std::vector<SlotState>& slots() const { return slots_; }

  // Every rank's store comes to hold all states, and the communicator is free until the next step: where layers are on
  // several ranks (pipeline_stage) or their outputs are (multinode), by all ranks at once; with sharded updates,
  // weights that are on their way come in. Errors: kPeer.
  void Gather(ParameterStore& store) const;
  // Puts this rank's part of blobs whose rows are split among the ranks into the store, once it has them whole.
  void TakeParts(ParameterStore& store) const;
  // They leave the store until the next Gather. Requires: no other program reads them.
  void ReleaseWhole(ParameterStore& store) const;

  // The names of all ranks' slots, and a store that has them: the one given, unless ranks keep slots of their own; then
  // it is filled here, by all of them together. Errors: kPeer.
  std::vector<std::string> AllSlots() const;
  ParameterStore& StoreOfAllSlots(ParameterStore& store);
  // A slot of a checkpoint, whole, comes into the store, or this rank's part of it. The name that it has there, empty
  // if it is another rank's; none if it is no slot of this net and solver.
  std::optional<std::string> SetSlot(const std::string& name, const StateTensor& whole, ParameterStore& store) const;
  // "@ema" slots take the weights' values: the mean starts there.
  void StartMeans(ParameterStore& store) const;

  // With delayed sums: those that wait go into the store for a checkpoint, and come from it before the first iteration,
  // multiplied with `scale`.
  void SaveWaiting(ParameterStore& store) const;
  void LoadWaiting(const ParameterStore& store, float scale) const;

 private:
  std::vector<SlotState> WholeSlots() const;
  // Null unless sums are delayed.
  DelayedSums* Delays() const { return exchange_ == nullptr ? nullptr : exchange_->delays(); }

  Communicator* world_ = nullptr;
  GradientExchange* exchange_ = nullptr;
  std::vector<SplitBlob> splits_;
  std::vector<SlotState> slots_;
  bool shards_ = false;
  std::vector<std::vector<NetBlob>> owned_;      // by rank; empty unless updates are sharded
  std::vector<SlotState> all_slots_;             // the same
  std::unique_ptr<ParameterStore> whole_slots_;  // as they were gathered last
  std::vector<NetBlob> reached_;
  std::vector<int64_t> gradient_keys_;  // of these in the exchange
  Communicator* stage_world_ = nullptr;
  std::vector<std::vector<std::string>> of_stages_;  // by stage: the states that are its own
};

}  // namespace moka
