// The train net as programs: forward, backward and update in one, or with iter_size > 1 a program that adds up
// gradients and one that updates. Guards keep every state as it was when the loss is not finite.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange/gradient_exchange.h"
#include "graph/program.h"
#include "layers/net/net.h"
#include "optim/checkpoint/state_file.h"
#include "optim/optimizers/update.h"
#include "optim/output_value.h"
#include "optim/step/accumulation_cut.h"
#include "optim/step/feed.h"
#include "optim/step/split_columns.h"
#include "optim/step/train_pipeline.h"
#include "optim/strategies/strategy.h"
#include "proto/moka.pb.h"

namespace moka {

class TrainNet {
 public:
  // Builds, differentiates, adds updates, fills what the store does not have yet and compiles. The solver must outlive
  // the net; its rates may still change (max_iter). With a world of several ranks (which must outlive it, too) each
  // trains on its part of the data, and losses, gradients and statistics of batch norms are means over all.
  // Another strategy than synchronous training lets ranks differ between the iterations in which they agree.
  // With a turn (optim/step/train_turns.h) only its layers are trained, and data, draws and kept states are its own.
  // Errors: kConfig (those of BuildNet; a net without loss or anything to train), kUnavailable.
  TrainNet(const NetParameter& param, const SolverParameter& solver, const PipelineOptions& data, uint64_t seed,
           const CompileOptions& compile, ParameterStore& store, Communicator* world = nullptr,
           const TrainTurn& turn = TrainTurn::default_instance())
      : TrainNet(param, solver, data, seed, compile, store, world, turn, nullptr) {}

  // Every rank's store comes to hold all states, and the communicator is free until the next Step: where layers are on
  // several ranks (pipeline_stage) or their outputs are (multinode), by all ranks at once; with sharded updates,
  // weights that are on their way come in. Errors: kPeer.
  void Gather(ParameterStore& store) const;

  // One iteration: iter_size batches and an update. Returns the mean loss of the batches; if it is not finite, no state
  // was changed. Where `must_agree`, all ranks hold the same states afterwards, whatever the strategy. Allocates
  // nothing in synchronous training. `turn_step`: of a turn with several steps an iteration. Errors: kPeer.
  double Step(int64_t iteration, int plateau_step = 0, bool must_agree = false, int turn_step = 0);
  // What this rank wants all to know, which it goes on wanting until they do, and how many ranks are known to want it
  // since the last Step.
  void SetWish(int wish, bool is_wanted) {
    if (is_wanted) wishes_.wanted.at(static_cast<size_t>(wish)) = 1;
  }
  int wished(int wish) const { return wishes_.counted.at(static_cast<size_t>(wish)); }
  // Whoever may leave a Step between its batches; where cut().has_left(), a Step returned nothing of use.
  AccumulationCut& cut() { return cut_; }
  GradientExchange* exchange() { return exchange_.get(); }  // null unless several ranks sum their gradients
  // Iterations that sums wait at most before they are in the weights.
  int delay() const { return kind_ == StrategyKind::kDelayed ? solver_.distributed().delay() : 0; }
  // With delayed sums: those that wait go into the store for a checkpoint, and come from it before the first iteration.
  void SaveWaiting(ParameterStore& store) const;
  // `scale`: what the sums are multiplied with.
  void LoadWaiting(const ParameterStore& store, float scale);
  // Null with one rank and in synchronous training.
  Strategy* strategy() { return strategy_.get(); }
  // After a Step whose loss was not finite: where it came from.
  std::optional<NonFinite> FindNonFinite();

  // Of a scaled loss: the scale of the next step if it is found while training, and the scale at which a gradient of
  // the last step was not finite (no state was changed then), 0 if all were.
  std::optional<double> loss_scale() const;
  double overflowed_at() const;

  // Steps of the program that the last batch ran on: a length bucket's; 0: those of the net's text.
  int64_t bucket_steps() const { return ran_->steps_; }
  // Outputs of the last batch, in Caffe's order.
  std::vector<OutputValue> Outputs() const;
  const std::vector<NetBlob>& blobs() const { return blobs_; }
  const std::vector<SlotState>& slots() const { return updates_.slots; }
  // The names of all ranks' slots, and a store that has them: the one given, unless ranks keep slots of their own; then
  // it is filled here, by all of them together. Errors: kPeer.
  std::vector<std::string> AllSlots() const;
  ParameterStore& StoreOfAllSlots(ParameterStore& store);
  // Of blobs whose rows are split among the ranks, once the store has them whole: this rank's part comes to be in it.
  void TakeParts(ParameterStore& store) const;
  // They leave the store until the next Gather. Requires: no other program reads them.
  void ReleaseWhole(ParameterStore& store) const;
  // A slot of a checkpoint, whole, comes into the store, or this rank's part of it. The name that it has there, empty
  // if it is another rank's; none if it is no slot of this net and solver.
  std::optional<std::string> SetSlot(const std::string& name, const StateTensor& whole, ParameterStore& store) const;
  const NetParameter& param() const { return param_; }
  Feed& feed() { return feed_; }
  const Feed& feed() const { return feed_; }
  Program& program() { return *step_; }
  // "@ema" slots take the weights' values: the mean starts there.
  void StartMeans(ParameterStore& store) const;

 private:
  struct ScalarInput {
    std::string name;
    Tensor tensor;
  };
  struct Shortened;  // optim/step/length_programs.h
  TrainNet(const NetParameter& param, const SolverParameter& solver, const PipelineOptions& data, uint64_t seed,
           const CompileOptions& compile, ParameterStore& store, Communicator* world, const TrainTurn& turn,
           const Shortened* shortened);
  void AddLengths(const NetParameter& param, const CompileOptions& compile, const PipelineOptions& data,
                  ParameterStore& store);
  // The net of the batch's length, with the batch that the feed has brought.
  TrainNet& NetOfBatch();
  void TakeBatch(const TrainNet& whole);
  // `updates`: of this net before this one.
  void SetInputs(int64_t iteration, int64_t updates, int micro_batch, int plateau_step);
  // Adds gradients and updates to the net's graph; with iter_size > 1 the updates are a program of their own.
  void AddTraining(BuiltNet& net, const LossScaling& scaling, const CompileOptions& options, ParameterStore& store);
  // Of a pipeline (optim/step/train_pipeline.cpp): AddTraining, Step and Outputs.
  void AddPipeline(BuiltNet& net, const LossScaling& scaling, const CompileOptions& options, ParameterStore& store);
  double StepPipeline(int64_t iteration, int plateau_step);
  std::vector<OutputValue> PipelineOutputs() const;
  void BindInputs(Program& updating);
  // What sums of the iterations before need, in the exchange and in checkpoints.
  void PrepareDelays(ParameterStore& store);
  // Ranks that do not sum gradients: what agrees instead, on what the programs leave in the store.
  void MakeStrategy(const CompileOptions& options, ParameterStore& store);
  // Sharded updates (optim/step/sharded_updates.cpp): what owners make of their weights becomes everybody's.
  void ShareUpdates(Graph& graph, const std::vector<ValueId>& sums);
  void RouteToOwners();
  // Split columns (optim/step/split_updates.cpp): gradients are summed but for those of parts, whose norms are over
  // all.
  void AddParts(ParameterStore& store) const;
  void SumWhole(Graph& graph, const std::vector<NetBlob>& trained, std::vector<ValueId>& gradients, ValueId& loss);
  std::vector<ValueId> GradientsToGuard(Graph& graph, const std::vector<NetBlob>& trained,
                                        std::vector<ValueId> gradients) const;
  SplitNorms NormsOverRanks() const;
  std::vector<SlotState> WholeSlots() const;
  const SplitBlob* SplitOf(std::string_view part) const;
  bool IsServed() const { return kind_ == StrategyKind::kServed; }
  std::vector<std::string> Statistics() const;
  // With several ranks: gradients, the loss (if one is given), wishes and the new values of statistics become those of
  // all ranks. The statistics are those that the graph assigns, or `statistics`, which it comes to assign.
  void SumOverAll(Graph& graph, std::vector<ValueId>& gradients, ValueId& loss, std::span<const NetBlob> statistics);

  const SolverParameter& solver_;
  const TrainTurn turn_;
  Communicator* world_;           // of ranks that train on parts of the data; null: there is one
  Communicator* pipeline_world_;  // of ranks that have parts of the layers; null: this one has all
  uint64_t seed_;
  NetParameter param_;
  std::vector<NetBlob> blobs_;
  std::vector<BuiltNet::Output> outputs_;
  std::map<std::string, int64_t> output_counts_;  // elements of each output
  std::unique_ptr<Program> step_;
  std::unique_ptr<Program> update_;  // iter_size > 1 only
  Feed feed_;                        // goes before the program whose stream it reads ahead for
  Updates updates_;
  std::vector<NetBlob> reached_;  // trained blobs that the loss reaches
  std::vector<ScalarInput> scalars_;
  Tensor random_key_;  // no data when the net draws nothing
  Tensor loss_;
  Tensor loss_of_all_;  // no data unless several ranks add up gradients of several batches
  Tensor loss_scale_;   // no data unless the scale is dynamic
  Tensor skipped_;      // no data unless the loss is scaled
  StrategyKind kind_ = StrategyKind::kSynchronous;
  Wishes wishes_;
  ValueId fence_ = kNoId;          // in the graph: all that is summed is on its way
  int64_t exchanged_ = 0;          // keys of what is summed over ranks are below
  std::vector<SplitBlob> splits_;  // rows of these are split among the ranks
  bool shards_ = false;
  std::vector<std::vector<NetBlob>> owned_;      // by rank; empty unless updates are sharded
  std::vector<SlotState> all_slots_;             // the same
  std::unique_ptr<ParameterStore> whole_slots_;  // as they were gathered last
  std::vector<int64_t> gradient_keys_;           // of reached_ in the exchange
  std::vector<int64_t> exact_keys_;              // of what else is summed: wishes, loss, statistics unless delayed
  ParameterStore* store_ = nullptr;              // only with delayed sums
  AccumulationCut cut_;
  Tensor wishes_in_;  // no data unless gradients are summed
  Tensor wishes_out_;
  std::shared_ptr<GradientExchange> exchange_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<TrainPipeline> pipeline_;  // null unless layers are on several ranks
  std::vector<DataLayer> data_layers_;
  std::vector<std::unique_ptr<TrainNet>> shorter_;  // ascending by steps; empty without length buckets
  int64_t steps_ = 0;                               // of a shorter net
  TrainNet* ran_ = this;                            // the net of the last batch
};

// The step's key for rand(): a pure function of (seed, iteration, micro-batch) below 2^53.
int64_t RandomKey(uint64_t seed, int64_t iteration, int micro_batch);

// Gradients of the net's loss. Errors: kConfig for a net without loss or without anything to train.
std::vector<ValueId> DifferentiateNet(BuiltNet& net, const std::vector<NetBlob>& trained, ValueId seed);

// Elements of a program's outputs, named as the net's.
std::vector<OutputValue> ReadOutputs(const Program& program, const std::vector<BuiltNet::Output>& outputs);
inline constexpr std::string_view kLossOutput = "@loss";
inline constexpr std::string_view kWishesName = "@wishes";

}  // namespace moka
