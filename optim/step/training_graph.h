// The graph of a training step: a net as layers made it, put through one list of passes by what the solver asks for.
// Whoever trains or times a step (`train`, `time`, benchmarks, tests) has it from here.
//
//   keep other statistics -> name outputs -> compose -> share subsamples -> scale the loss -> differentiate
//     -> decay unreached weights, and then
//   sum over ranks -> shard -> guard -> update -> mean statistics -> gather from owners   a batch an iteration
//   guard statistics -> accumulate -> update apart -> mean statistics              several (iter_size), the update by
//   itself guard statistics -> accumulate -> update on servers                     parameter servers accumulate -> cut
//   into stages                                           a pipeline
//     -> keep slots -> delay
//
// Passes of several ranks stand in the list where there are several. Each is declared with what it needs and what it
// makes in optim/step/training_passes.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/exchange/gradient_exchange.h"
#include "comm/transport/communicator.h"
#include "graph/parameter_store.h"
#include "graph/partition.h"
#include "layers/net/net.h"
#include "optim/optimizers/loss_scale.h"
#include "optim/optimizers/update.h"
#include "optim/step/split_columns.h"
#include "optim/strategies/strategy.h"
#include "proto/moka.pb.h"

namespace moka {

inline constexpr std::string_view kLossOutput = "@loss";
inline constexpr std::string_view kWishesName = "@wishes";  // input and output, where gradients are summed over ranks

// Ranks that train on parts of the data, as a step's graph knows them.
struct StepRanks {
  Communicator* world = nullptr;         // null: there is one
  GradientExchange* exchange = nullptr;  // null: gradients are not summed in the step
  StrategyKind kind = StrategyKind::kSynchronous;
  bool shards_updates = false;         // each updates the weights that it owns
  std::vector<SplitBlob> splits = {};  // whose rows are split among them
  uint64_t seed = 0;                   // of what compression draws
};

// A net whose layers are on several ranks.
struct StepStages {
  const std::map<std::string, int>& of_layer;
  int own = 0;
  int count = 1;
};

// A description of the step that is asked for. All that it refers to must outlive the TrainingGraph.
struct TrainingSpec {
  const SolverParameter& solver;
  const NetParameter& param;  // of the net, for what its layers ask of their updates
  const TrainTurn& turn = TrainTurn::default_instance();
  LossScaling scaling = {};
  StepRanks ranks = {};
  std::optional<StepStages> stages = {};

  // Iterations that sums wait at most before they are in the weights.
  int delay() const { return ranks.kind == StrategyKind::kDelayed ? solver.distributed().delay() : 0; }
};

// The fence of the values that ranks sum, and the keys by which the exchange knows them.
struct SummedValues {
  ValueId fence = kNoId;                // there when all of it is on its way
  int64_t next_key = 0;                 // the first that is free
  std::vector<int64_t> gradients = {};  // of the weights reached
  std::vector<int64_t> exact = {};      // of what else is summed: wishes, loss, statistics unless delayed
};

// A step as the passes hand it on, and at the end the step itself.
struct TrainingGraph {
  const TrainingSpec& spec;
  BuiltNet& net;                        // its graph becomes that of the batch
  std::vector<NetBlob> trained = {};    // blobs that the step trains
  std::vector<ValueId> gradients = {};  // of these; kNoId: the loss does not reach it, or another rank updates it
  std::vector<NetBlob> reached = {};    // those of them that the loss reaches
  ValueId loss = kNoId;                 // what the update is guarded by: the net's, or the mean over ranks
  std::optional<LossScale> scale = {};
  Updates updates = {};                          // the slots, and the inputs of whichever graph updates
  std::optional<UpdateGraph> apart = {};         // the update, where it is a program of its own
  SummedValues summed = {};                      // with several ranks
  std::vector<ValueId> sums = {};                // sharded updates: of the weights reached
  std::vector<std::vector<NetBlob>> owned = {};  // the same, by rank
  std::vector<SlotState> all_slots = {};         // the same: those of all ranks
  NodeId first_backward = kNoId;                 // of a pipeline
  std::optional<StageGraphs> stages = {};        // the same: this rank's part of net.graph
};

struct TrainingPass {
  std::string_view name;
  void (*apply)(TrainingGraph&);
};
// The list, as the solver asks for it.
std::vector<TrainingPass> PassesOf(const TrainingSpec& spec);

// Puts the net through the list; the store comes to have the slots and the states of the loss scale. Requires:
// CheckOptimizer passed, the store has the net's blobs and what its layers keep. Errors: kConfig for a net without loss
// and those of the passes.
TrainingGraph BuildTrainingGraph(BuiltNet& net, const TrainingSpec& spec, ParameterStore& store);

// Once the programs are compiled, so that the exchange knows all keys: how the step's values cross between the ranks.
// Requires: a step that sums gradients.
void SetWays(const TrainingGraph& step);

}  // namespace moka
