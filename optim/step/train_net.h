// The train net: the programs of its step (optim/step/training_graph.h), the data that feed them, and how several ranks
// agree. Guards keep every state as it was when the loss is not finite.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/exchange/gradient_exchange.h"
#include "graph/program.h"
#include "graph/shared_arena.h"
#include "layers/net/net.h"
#include "optim/output_value.h"
#include "optim/step/accumulation_cut.h"
#include "optim/step/bucket_programs.h"
#include "optim/step/feed.h"
#include "optim/step/gradient_norms.h"
#include "optim/step/step_program.h"
#include "optim/step/train_pipeline.h"
#include "optim/step/trained_states.h"
#include "optim/step/training_graph.h"
#include "optim/strategies/strategy.h"
#include "proto/moka.pb.h"

namespace moka {

struct TrainNetOptions {
  PipelineOptions data = {};
  uint64_t seed = 0;
  CompileOptions compile = {};
  // The communicator of several ranks, which must outlive the net: each trains on its part of the data, and losses,
  // gradients and statistics of batch norms are means over all. Another strategy than synchronous training lets ranks
  // differ between the iterations in which they agree. Null: there is one.
  Communicator* world = nullptr;
  // With a turn (optim/step/train_turns.h) only its layers are trained, and data, draws and kept states are its own.
  TrainTurn turn = {};
};

class TrainNet {
 public:
  // Builds, differentiates, adds updates, fills what the store does not have yet and compiles. The solver must outlive
  // the net; its rates may still change (max_iter). Errors: kConfig (those of BuildNet; a net without loss or anything
  // to train), kUnavailable.
  TrainNet(const NetParameter& param, const SolverParameter& solver, const TrainNetOptions& options,
           ParameterStore& store);

  // One iteration: iter_size batches and an update. Returns the mean loss of the batches; if it is not finite, no state
  // was changed. Where `must_agree`, all ranks hold the same states afterwards, whatever the strategy. Allocates
  // nothing in synchronous training. `turn_step`: of a turn with several steps an iteration. Errors: kPeer.
  double Step(int64_t iteration, int plateau_step = 0, bool must_agree = false, int turn_step = 0);
  // After a Step whose loss was not finite: where it came from.
  std::optional<NonFinite> FindNonFinite();
  // Outputs of the last batch, in Caffe's order.
  std::vector<OutputValue> Outputs() const;
  // The scale of the loss in the last batch's program, and its length bucket's steps (0: those of the net's text).
  StepScale scale() const { return ran_->scale(); }
  int64_t bucket_steps() const { return ran_->steps; }

  // The norms of the last Step's gradients, where noise_scale_interval has them measured.
  const std::optional<GradientNorms>& norms() const { return norms_.norms(); }

  // The things that this rank wants all to know, and those that all know since the last Step.
  Wishes& wishes() { return wishes_; }
  // Whoever may leave a Step between its batches; where cut().has_left(), a Step returned nothing of use.
  AccumulationCut& cut() { return cut_; }
  GradientExchange* exchange() { return exchange_.get(); }  // null unless several ranks sum their gradients
  // Null with one rank and in synchronous training.
  Strategy* strategy() { return strategy_.get(); }

  const NetParameter& param() const { return param_; }
  const std::vector<NetBlob>& blobs() const { return blobs_; }
  TrainedStates& states() { return states_; }
  Feed& feed() { return feed_; }
  Program& program() { return *whole_.batch; }

 private:
  // The net as this rank trains it. Errors: those of BuildNet, and of what several ranks cannot do together.
  BuiltNet BuildOwnPart(const NetParameter& param, const NetOptions& net_options, const CompileOptions& compile);
  void RefuseForRanks(const BuiltNet& net, const CompileOptions& compile) const;
  CompileOptions StepOptions(const CompileOptions& compile) const;
  TrainingSpec SpecOf(const CompileOptions& options) const;
  // Makes the step of a net whose states are in the store: of the net's text, or of a length bucket.
  TrainingGraph MakeStep(BuiltNet& net, const TrainingSpec& spec, const CompileOptions& options, StepProgram& made);
  void CompilePrograms(TrainingGraph& step, const CompileOptions& options, StepProgram& made);
  // Makes what only the step of the net's text has: the states of all ranks, and how they agree.
  void JoinRanks(const TrainingGraph& step, const CompileOptions& options);
  void AddBuckets(const NetParameter& param, const NetOptions& net_options, const TrainNetOptions& options);
  // The sum of the losses of an iteration's batches; none where it is left between two of them.
  std::optional<double> RunBatches(int64_t iteration, int plateau_step, int turn_step);
  // Delayed sums: what ranks keep apart becomes one where they must agree, and delays follow what was waited for.
  void AgreeOnDelayed(int64_t iteration, bool must_agree);
  std::vector<std::string> Statistics() const;
  // Whether batches of shorter sentences may run on programs of their own.
  bool RunsBuckets() const { return ranks_.world == nullptr && turn_.name().empty() && solver_.iter_size() == 1; }
  int delay() const { return exchange_ && exchange_->delays() != nullptr ? exchange_->delays()->setting().delay : 0; }

  const SolverParameter& solver_;
  const TrainTurn turn_;
  const uint64_t seed_;
  Communicator* stage_world_;  // of ranks that have parts of the layers; null: this one has all
  StepRanks ranks_;
  std::map<std::string, int> stage_of_layer_;  // empty unless layers have stages
  NetParameter param_;
  std::vector<NetBlob> blobs_;
  std::vector<BuiltNet::Output> outputs_;
  StepProgram whole_;  // of the net's text
  BucketPrograms buckets_;
  std::shared_ptr<SharedArena> arena_ = std::make_shared<SharedArena>();  // of both
  StepProgram* ran_ = &whole_;                                            // of the last batch
  std::unique_ptr<TrainPipeline> pipeline_;                               // null unless layers are on several ranks
  Feed feed_;  // goes before the program whose stream it reads ahead for
  TrainedStates states_;
  Wishes wishes_;
  Tensor wishes_in_;  // no data unless gradients are summed, as the next one
  Tensor wishes_out_;
  ParameterStore& store_;
  AccumulationCut cut_;
  NormReadout norms_;
  std::shared_ptr<GradientExchange> exchange_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace moka
