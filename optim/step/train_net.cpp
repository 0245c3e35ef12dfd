// Builds the net as this rank trains it, compiles its step's programs, and runs an iteration of them.
#include "optim/step/train_net.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/text.h"
#include "layers/net/named_layers.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/pipeline/stages.h"
#include "optim/precision.h"
#include "optim/ranks/batch_policy.h"
#include "optim/step/output_files.h"
#include "optim/step/turn_scope.h"
#include "optim/strategies/local_sgd.h"
#include "optim/strategies/served_updates.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Layers that compute as they should but whose training is more than gradients.
void RefuseUntrainable(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).untrainable == nullptr) continue;
    throw ErrorAt(layer, "type",
                  StrCat("layer \"", layer.name(), "\": training ", layer.type(), ", which ",
                         TraitsOf(layer).untrainable, ", is not part of Moka"),
                  "test the net, or put a layer that gradients train in its place");
  }
}

// Errors: kConfig for states that go on from batch to batch, with which several ranks cannot train a net together yet.
void RefuseAlone(const BuiltNet& net) {
  if (!net.kept.empty()) {
    throw Error(
        ErrorKind::kConfig, PlaceOf(net.param),
        StrCat("state \"", net.kept.front().name, "\" goes on from batch to batch of one rank, so several ranks ",
               "cannot train this net together"),
        "train it with one rank, or without the state");
  }
}

// Warns of layers that several ranks compute otherwise than one: each layer once for each reason.
void WarnOfUnequal(const BuiltNet& net) {
  std::set<std::pair<std::string, std::string>> told;
  for (const auto& [layer, why] : net.unequal) {
    if (!told.emplace(layer, why).second) continue;
    LogWarning(StrCat("layer \"", layer, "\" ", why, ": several ranks do not train as one does on the whole batch"));
  }
}

bool HasSeveral(const Communicator* world) { return world != nullptr && world->size() > 1; }

void Pulse(const CompileOptions& compile) {
  if (compile.on_pulse) compile.on_pulse();
}

}  // namespace

TrainNet::TrainNet(const NetParameter& param, const SolverParameter& solver, const TrainNetOptions& options,
                   ParameterStore& store)
    : solver_(solver),
      turn_(options.turn),
      seed_(turn_.name().empty() ? options.seed : options.seed ^ StableHash(turn_.name())),
      stage_world_(HasSeveral(options.world) && HasStages(param) ? options.world : nullptr),
      feed_(ProgramNameOf(turn_), InPhaseOf(param, TRAIN, options.data)),
      store_(store) {
  if (HasSeveral(options.world) && stage_world_ == nullptr) {
    ranks_ = {.world = options.world, .kind = StrategyOf(solver_), .shards_updates = ShardsUpdates(solver_)};
    ranks_.seed = seed_;
  }
  CheckNoiseScale(solver_, ranks_.world == nullptr ? 1 : ranks_.world->size(), stage_world_ != nullptr);
  if (ranks_.world != nullptr && SumsGradients(ranks_.kind)) {
    exchange_ =
        std::make_shared<GradientExchange>(*ranks_.world, MakeDeviceExchange(options.compile.device, *ranks_.world));
    ranks_.exchange = exchange_.get();
  }
  NetOptions net_options;
  net_options.state = param.state();
  if (!net_options.state.has_phase()) net_options.state.set_phase(TRAIN);
  net_options.data_types = feed_.types();
  Pulse(options.compile);
  BuiltNet net = BuildOwnPart(param, net_options, options.compile);
  WarnOfOutputFiles(net.param);
  // A checkpoint keeps the net for any number of ranks: as given but for names, which blobs are kept by.
  param_ = FilterNet(param, net_options.state);
  NameLayers(param_);
  outputs_ = net.outputs;
  AddBlobs(blobs_, options.seed, store);
  if (!ranks_.splits.empty()) SetParts(ranks_.splits, *ranks_.world, store);
  AddKept(net, ProgramNameOf(turn_), store);
  CheckTurnLayers(solver_, turn_, blobs_);
  const CompileOptions compile = StepOptions(options.compile);
  const TrainingSpec spec = SpecOf(compile);
  JoinRanks(MakeStep(net, spec, compile, whole_), compile);
  feed_.Bind(*whole_.batch, net.data);
  if (!pipeline_) AddBuckets(param, net_options, options);
}

BuiltNet TrainNet::BuildOwnPart(const NetParameter& param, const NetOptions& net_options,
                                const CompileOptions& compile) {
  const int64_t ranks = ranks_.world == nullptr ? 1 : ranks_.world->size();
  NetOptions own = net_options;
  own.ranks = ranks;
  own.asks_ranks = exchange_ != nullptr && solver_.iter_size() == 1 && compile.device.is_cpu();
  const auto builds = [&](const NetParameter& net) { return AttemptNet(WithSyncedNorms(net, ranks), own).builds; };
  const bool shares_batch = ranks_.world != nullptr && HasGlobalBatch(solver_);
  const auto part = [&] {
    if (stage_world_ != nullptr) return NetOfRank(param, solver_.iter_size(), "micro-batches");
    return shares_batch ? NetOfRank(param, ranks, "ranks", builds) : param;
  };
  if (HasStages(param)) {
    stage_of_layer_ = StagesOf(FilterNet(param, own.state), stage_world_ == nullptr ? 1 : stage_world_->size());
  }
  BuiltNet net = BuildNet(WithSyncedNorms(part(), ranks), own);
  if (ranks_.world != nullptr && ranks_.world->is_first()) WarnOfUnequal(net);
  Pulse(compile);
  blobs_ = net.blobs;
  if (ranks_.world != nullptr) ranks_.splits = SplitColumns(net, ranks_.world->rank(), ranks);
  if (!ranks_.splits.empty()) RefuseBesideSplit(solver_);
  if (stage_world_ != nullptr) RefuseSplitInPipeline(net.param);
  RefuseUntrainable(net.param);
  RefuseForRanks(net, compile);
  return net;
}

void TrainNet::RefuseForRanks(const BuiltNet& net, const CompileOptions& compile) const {
  const bool is_pipeline = stage_world_ != nullptr;
  if (ranks_.world != nullptr || is_pipeline) RefuseAlone(net);
  const bool has_synced_norms = HasSyncedNorms(net.param);
  if (has_synced_norms && (!exchange_ || solver_.iter_size() > 1)) {
    throw Error(ErrorKind::kConfig, PlaceOf(net.param),
                "statistics of batch norms are taken over several ranks (sync_ranks) where gradients are summed after "
                "each batch only",
                "leave out sync_ranks, or iter_size and the strategy");
  }
  if ((ranks_.world != nullptr || is_pipeline) && !compile.device.is_cpu() &&
      (is_pipeline || ranks_.kind != StrategyKind::kSynchronous || ranks_.shards_updates || has_synced_norms ||
       !ranks_.splits.empty() || solver_.distributed().compression().method() != "none")) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver_, "distributed"),
                "ranks on GPUs train synchronously only so far: no other strategy, pipelines, shard_updates, "
                "compression, sync_ranks or split layers (multinode)",
                "take --device=cpu, or leave these out");
  }
}

CompileOptions TrainNet::StepOptions(const CompileOptions& compile) const {
  CompileOptions options = compile;
  options.name = ProgramNameOf(turn_);
  options.inference = false;
  if (RunsBuckets()) options.arena = arena_;
  options.compute = PrecisionOf(solver_, param_, compile.compute);
  options.keep32_layers = LayersInFloat32(param_);
  return options;
}

TrainingSpec TrainNet::SpecOf(const CompileOptions& options) const {
  TrainingSpec spec{.solver = solver_,
                    .param = param_,
                    .turn = turn_,
                    .scaling = ScalingOf(solver_, param_, options.compute),
                    .ranks = ranks_};
  if (stage_world_ != nullptr)
    spec.stages.emplace(
        StepStages{.of_layer = stage_of_layer_, .own = stage_world_->rank(), .count = stage_world_->size()});
  return spec;
}

TrainingGraph TrainNet::MakeStep(BuiltNet& net, const TrainingSpec& spec, const CompileOptions& options,
                                 StepProgram& made) {
  Pulse(options);
  TrainingGraph step = BuildTrainingGraph(net, spec, store_);
  Pulse(options);
  made.data = net.data;
  CompilePrograms(step, options, made);
  made.inputs = StepInputs(solver_, seed_, ranks_.world == nullptr ? 0 : ranks_.world->rank(), *made.batch,
                           made.updating(), step.updates.inputs);
  return step;
}

void TrainNet::CompilePrograms(TrainingGraph& step, const CompileOptions& options, StepProgram& made) {
  if (stage_world_ != nullptr) {
    pipeline_ = std::make_unique<TrainPipeline>(*stage_world_, step, options, store_, made);
    return;
  }
  CompileOptions updating = options;
  updating.collectives = exchange_;
  if (step.apart) {
    updating.name = "update";
    made.update = Compile(std::move(step.apart->graph), store_, updating);
  }
  made.batch = Compile(std::move(step.net.graph), store_, step.apart ? options : updating);
  made.BindOutputs();
}

void TrainNet::JoinRanks(const TrainingGraph& step, const CompileOptions& options) {
  states_ = TrainedStates(step, stage_world_);
  if (MeasuresNorms(solver_)) norms_ = NormReadout(step, whole_, store_, options);
  if (exchange_) {
    wishes_in_ = whole_.updating().input(kWishesName);
    wishes_out_ = whole_.updating().output(kWishesName);
    return SetWays(step);
  }
  if (ranks_.world == nullptr) return;
  if (ranks_.kind == StrategyKind::kServed) {
    strategy_ = std::make_unique<ServedUpdates>(
        *ranks_.world, store_,
        ServedUpdates::Setting{
            .solver = &solver_, .net = &param_, .blobs = step.reached, .statistics = Statistics(), .compile = options});
    return;
  }
  std::vector<std::string> names = Statistics();
  for (const NetBlob& blob : step.reached) names.push_back(blob.name);
  for (const SlotState& slot : step.updates.slots) {
    if (!slot.blob.empty()) names.push_back(slot.name);  // not what counts iterations for loss scaling
  }
  strategy_ = std::make_unique<LocalSgd>(*ranks_.world, solver_, store_, std::move(names));
}

void TrainNet::AddBuckets(const NetParameter& param, const NetOptions& net_options, const TrainNetOptions& options) {
  const bool can_shorten = RunsBuckets() && whole_.batch->stream() == nullptr;
  buckets_.Add(param, whole_, can_shorten, [&](const NetParameter& text, const DataTypes& types) {
    NetOptions shorter = net_options;
    shorter.data_types = types;
    shorter.tells_fields = false;  // the whole net has told them
    BuiltNet net = BuildNet(WithSyncedNorms(text, 1), shorter);
    AddBlobs(net.blobs, options.seed, store_);
    AddKept(net, ProgramNameOf(turn_), store_);
    StepProgram made;
    const CompileOptions compile = StepOptions(options.compile);
    const TrainingSpec spec = SpecOf(compile);
    MakeStep(net, spec, compile, made);
    return made;
  });
}

std::vector<std::string> TrainNet::Statistics() const {
  std::vector<std::string> names;
  for (const NetBlob& blob : StatisticBlobs(blobs_)) names.push_back(blob.name);
  return names;
}

double TrainNet::Step(int64_t iteration, int plateau_step, bool must_agree, int turn_step) {
  if (pipeline_) {
    return pipeline_->Step(
        [&](int micro_batch) {
          whole_.inputs.Set({iteration, iteration, micro_batch, plateau_step});
          feed_.Next();
        },
        wishes_);
  }
  if (exchange_) {
    std::ranges::copy(wishes_.wanted(), wishes_in_.as<float>().begin());
    exchange_->SetIteration(iteration);
  }
  if (strategy_) strategy_->Begin(iteration);
  norms_.Begin(iteration);
  const std::optional<double> run = RunBatches(iteration, plateau_step, turn_step);
  if (!run) return 0;
  double sum = *run;
  if (whole_.update) {
    // Runs even after a bad batch: the guard keeps the weights and the sums are zeroed for the next iteration.
    whole_.update->input("guard").as<float>()[0] = static_cast<float>(sum);
    whole_.update->Run();
    if (exchange_) sum = whole_.loss_of_all.as<float>()[0];
  }
  double loss = sum / solver_.iter_size();
  if (exchange_) {
    exchange_->Check();
    wishes_.Count(std::span<const float>(wishes_out_.as<float>()).first<kWishes>(), delay());
  }
  if (strategy_) loss = strategy_->Finish(iteration, loss, must_agree, wishes_);
  if (delay() > 0) AgreeOnDelayed(iteration, must_agree);
  wishes_.DropCounted();
  norms_.Finish(feed_.batch_size(), loss);
  return loss;
}

std::optional<double> TrainNet::RunBatches(int64_t iteration, int plateau_step, int turn_step) {
  double sum = 0;
  const int batches = solver_.iter_size();
  cut_.Begin(feed_);
  for (int i = 0; i < batches; ++i) {
    if (i > 0 && cut_.Leaves(feed_)) return std::nullopt;
    feed_.Next();
    ran_ = &buckets_.ProgramOf(whole_);
    ran_->inputs.Set({iteration, iteration * turn_.steps() + turn_step, i, plateau_step});
    ran_->batch->Run();
    const double loss = ran_->loss.as<float>()[0];
    sum += loss;
    norms_.TakeBatch(i + 1);
    if (std::isfinite(loss)) continue;
    // The inputs stay for FindNonFinite. A training that goes on takes all batches: ranks and positions count on it.
    while (solver_.on_nan() != SolverParameter::STOP && ++i < batches) feed_.Next();
    break;
  }
  return sum;
}

void TrainNet::AgreeOnDelayed(int64_t iteration, bool must_agree) {
  const bool agrees = must_agree || wishes_.is_any_counted();
  const bool adapts = exchange_->delays()->setting().is_dynamic && (iteration + 1) % DelayedSums::kAdaptEvery == 0;
  if (agrees || adapts) exchange_->Drain();
  if (agrees) MeanOverRanks(*ranks_.world, store_, Statistics());
  if (adapts) exchange_->delays()->Adapt(*ranks_.world);
}

std::optional<NonFinite> TrainNet::FindNonFinite() {
  if (ranks_.shards_updates) exchange_->Drain();
  return ran_->batch->FindNonFinite();
}

std::vector<OutputValue> TrainNet::Outputs() const {
  return pipeline_ ? pipeline_->Outputs() : ReadOutputs(*ran_->batch, outputs_);
}

}  // namespace moka
