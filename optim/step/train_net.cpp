#include "optim/step/train_net.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "comm/exchange/sum_over_ranks.h"
#include "core/error.h"
#include "core/log.h"
#include "core/rng.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "layers/net/catalog.h"
#include "layers/net/named_layers.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/pipeline/stages.h"
#include "optim/precision.h"
#include "optim/ranks/batch_policy.h"
#include "optim/step/compression_policy.h"
#include "optim/step/length_programs.h"
#include "optim/step/output_files.h"
#include "optim/step/turn_scope.h"
#include "optim/step/unreached_blobs.h"
#include "optim/strategies/local_sgd.h"
#include "optim/strategies/ownership.h"
#include "optim/strategies/served_updates.h"
#include "proto/nets/filter.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Layers that compute as they should but whose training is more than gradients.
void RefuseUntrainable(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() != "INQConvolution" && layer.type() != "INQInnerProduct") continue;
    throw ErrorAt(layer, "type",
                  StrCat("layer \"", layer.name(), "\": training ", layer.type(),
                         ", which fixes weights at powers of two, is not part of Moka"),
                  "test the net, or take the layer without INQ to train it in full precision");
  }
}

// Numbers that gradients meet inside a layer are of gradients as they are: where the loss is scaled, so are they.
void ScaleNumbersOfGradients(Graph& graph, ValueId scale) {
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node node = graph.node(id);  // a copy: nodes are added
    if (node.op->name != "clip_gradient" && node.op->name != "output_decay") continue;
    const ValueId scaled =
        GraphBuilder(graph, node.origin).Add1(node.op->name, {node.inputs[0], scale}, node.attributes);
    graph.ReplaceUses(node.outputs[0], scaled);
    graph.RemoveNode(id);
  }
}

// What several ranks cannot do together yet.
void RefuseAlone(const BuiltNet& net) {
  if (!net.kept.empty()) {
    throw Error(
        ErrorKind::kConfig, PlaceOf(net.param),
        StrCat("state \"", net.kept.front().name, "\" goes on from batch to batch of one rank, so several ranks ",
               "cannot train this net together"),
        "train it with one rank, or without the state");
  }
}

// What several ranks compute otherwise than one: each layer once for each reason.
void WarnOfUnequal(const BuiltNet& net) {
  std::set<std::pair<std::string, std::string>> told;
  for (const auto& [layer, why] : net.unequal) {
    if (!told.emplace(layer, why).second) continue;
    LogWarning(StrCat("layer \"", layer, "\" ", why, ": several ranks do not train as one does on the whole batch"));
  }
}

void AddSlots(const std::vector<SlotState>& slots, ParameterStore& store) {
  for (const SlotState& slot : slots) {
    if (!store.Has(slot.name)) store.Add(slot.name, slot.shape);
  }
}

}  // namespace

std::vector<ValueId> DifferentiateNet(BuiltNet& net, const std::vector<NetBlob>& trained, ValueId seed) {
  if (net.loss == kNoId) {
    throw Error(ErrorKind::kConfig, PlaceOf(net.param),
                StrCat("the train net \"", net.param.name(), "\" has no loss, so there is nothing to train it by"),
                "add a loss layer such as SoftmaxWithLoss, or give a layer a loss_weight");
  }
  if (trained.empty()) {
    LogWarning(
        StrCat(PlaceOf(net.param).ToString(), ": the train net \"", net.param.name(),
               "\" has no parameter with an lr_mult above 0: no weight learns, and only running statistics change"));
    return {};
  }
  std::vector<ValueId> wanted;
  wanted.reserve(trained.size());
  for (const NetBlob& blob : trained) wanted.push_back(blob.state);
  return Differentiate(net.graph, net.loss, wanted, seed);
}

int64_t RandomKey(uint64_t seed, int64_t iteration, int micro_batch) {
  const auto iter = static_cast<uint64_t>(iteration);
  constexpr uint32_t kDomain = 0x4B455953;  // apart from other uses of Philox with this seed
  const auto words = Philox(
      {static_cast<uint32_t>(iter), static_cast<uint32_t>(iter >> 32U), static_cast<uint32_t>(micro_batch), kDomain},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32U)});
  constexpr uint64_t kBelow = (uint64_t{1} << 53U) - 1;  // exact in a double
  return static_cast<int64_t>((uint64_t{words[0]} << 32U | words[1]) & kBelow);
}

std::vector<OutputValue> ReadOutputs(const Program& program, const std::vector<BuiltNet::Output>& outputs) {
  std::vector<OutputValue> values;
  for (const BuiltNet::Output& output : outputs) {
    const Tensor tensor = program.output(output.name);
    for (const float v : tensor.as<float>()) values.push_back({output.name, v, output.loss_weight, {}});
  }
  return values;
}

TrainNet::TrainNet(const NetParameter& param, const SolverParameter& solver, const PipelineOptions& data, uint64_t seed,
                   const CompileOptions& compile, ParameterStore& store, Communicator* world, const TrainTurn& turn,
                   const Shortened* shortened)
    : solver_(solver),
      turn_(turn),
      world_(world != nullptr && world->size() > 1 && !HasStages(param) ? world : nullptr),
      pipeline_world_(world != nullptr && world->size() > 1 && HasStages(param) ? world : nullptr),
      seed_(turn.name().empty() ? seed : seed ^ StableHash(turn.name())),
      feed_(ProgramNameOf(turn), InPhaseOf(param, TRAIN, data)) {
  if (world_ != nullptr) kind_ = StrategyOf(solver_);
  shards_ = world_ != nullptr && ShardsUpdates(solver_);
  if (world_ != nullptr && SumsGradients(kind_)) {
    exchange_ = std::make_shared<GradientExchange>(*world_, MakeDeviceExchange(compile.device, *world_));
  }
  NetOptions options;
  options.state = param.state();
  if (!options.state.has_phase()) options.state.set_phase(TRAIN);
  options.data_types = feed_.types();
  if (shortened != nullptr) {
    steps_ = shortened->steps;
    options.data_types = [shortened](const LayerParameter& layer) { return shortened->Types(layer); };
  }
  const auto pulse = [&] {
    if (compile.on_pulse) compile.on_pulse();
  };
  pulse();
  const bool shares_batch = world_ != nullptr && HasGlobalBatch(solver_);
  const int64_t ranks = world_ == nullptr ? 1 : world_->size();
  options.ranks = ranks;
  options.asks_ranks = exchange_ != nullptr && solver_.iter_size() == 1 && compile.device.is_cpu();
  const auto builds = [&](const NetParameter& net) { return AttemptNet(WithSyncedNorms(net, ranks), options).builds; };
  const auto part = [&] {
    if (pipeline_world_ != nullptr) return NetOfRank(param, solver_.iter_size(), "micro-batches");
    if (shortened != nullptr) return shortened->Net(param);
    return shares_batch ? NetOfRank(param, ranks, "ranks", builds) : param;
  };
  if (HasStages(param)) {
    pipeline_ = std::make_unique<TrainPipeline>();
    pipeline_->stage_of_layer = StagesOf(FilterNet(param, options.state), world == nullptr ? 1 : world->size());
    if (pipeline_world_ == nullptr) pipeline_.reset();  // all layers are of stage 0
  }
  BuiltNet net = BuildNet(WithSyncedNorms(part(), ranks), options);
  if (world_ != nullptr && world_->is_first() && shortened == nullptr) WarnOfUnequal(net);
  pulse();
  std::vector<NetBlob> whole_blobs = net.blobs;
  if (world_ != nullptr) splits_ = SplitColumns(net, world_->rank(), ranks);
  if (!splits_.empty()) RefuseBesideSplit(solver_);
  if (pipeline_world_ != nullptr) RefuseSplitInPipeline(net.param);
  RefuseUntrainable(net.param);
  if (world_ != nullptr || pipeline_) RefuseAlone(net);
  const bool has_synced_norms = HasSyncedNorms(net.param);
  if (has_synced_norms && (!exchange_ || solver_.iter_size() > 1)) {
    throw Error(ErrorKind::kConfig, PlaceOf(net.param),
                "statistics of batch norms are taken over several ranks (sync_ranks) where gradients are summed after "
                "each batch only",
                "leave out sync_ranks, or iter_size and the strategy");
  }
  if ((world_ != nullptr || pipeline_) && !compile.device.is_cpu() &&
      (pipeline_ || kind_ != StrategyKind::kSynchronous || shards_ || has_synced_norms || !splits_.empty() ||
       solver_.distributed().compression().method() != "none")) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver_, "distributed"),
                "ranks on GPUs train synchronously only so far: no other strategy, pipelines, shard_updates, "
                "compression, sync_ranks or split layers (multinode)",
                "take --device=cpu, or leave these out");
  }
  WarnOfOutputFiles(net.param);
  // What a checkpoint keeps is of any number of ranks: as given but for names, which blobs are kept by.
  param_ = FilterNet(param, options.state);
  NameLayers(param_);
  blobs_ = std::move(whole_blobs);
  outputs_ = net.outputs;
  AddBlobs(blobs_, seed, store);
  AddParts(store);
  AddKept(net, ProgramNameOf(turn_), store);
  CheckTurnLayers(solver_, turn_, blobs_);
  KeepOtherStatistics(net, turn_);
  for (const BuiltNet::Output& output : outputs_) {
    net.graph.AddOutput(output.name, output.value);
    output_counts_[output.name] = net.graph.shape(output.value).Count();
  }
  if (net.loss != kNoId) net.graph.AddOutput(std::string(kLossOutput), net.loss);
  // Outputs are named first, so none of them is joined into another node. Layers of two stages stay apart.
  if (!pipeline_) ComposeForward(net.graph);
  ShareSubsamples(net.graph);
  CompileOptions step_options = compile;
  step_options.name = ProgramNameOf(turn_);
  step_options.inference = false;
  step_options.compute = PrecisionOf(solver_, param_, compile.compute);
  step_options.keep32_layers = LayersInFloat32(param_);
  const LossScaling scaling = ScalingOf(solver_, param_, step_options.compute);
  AddLossScaleStates(scaling, store);
  pulse();
  if (pipeline_) {
    AddPipeline(net, scaling, step_options, store);
    feed_.Bind(*step_, net.data);
    return;
  }
  AddTraining(net, scaling, step_options, store);
  pulse();
  // What layers keep goes into checkpoints as the slots do.
  for (const KeptState& kept : net.kept) updates_.slots.push_back({kept.name, {}, kept.shape});
  if (scaling.is_dynamic) {
    updates_.slots.push_back({std::string(kLossScaleState), {}, Shape{}});
    updates_.slots.push_back({std::string(kGoodStepsState), {}, Shape{}});
  }
  data_layers_ = net.data;
  if (!update_) step_options.collectives = exchange_;
  step_ = Compile(std::move(net.graph), store, step_options);
  if (shortened == nullptr) feed_.Bind(*step_, data_layers_);
  BindInputs(update_ ? *update_ : *step_);
  if (delay() > 0) PrepareDelays(store);
  if (shards_) RouteToOwners();
  if (exchange_ && WireOf(solver_.distributed().wire()) != Wire::kFloat32) {
    for (const int64_t key : exact_keys_) exchange_->SetWay(key, GradientExchange::Way::kExactToAll, 0);
  }
  if (world_ != nullptr && !exchange_) MakeStrategy(step_options, store);
  if (shortened == nullptr) AddLengths(param, compile, data, store);
}

void TrainNet::AddTraining(BuiltNet& net, const LossScaling& scaling, const CompileOptions& options,
                           ParameterStore& store) {
  const std::vector<NetBlob> trained = TrainedInTurn(TrainedBlobs(net.blobs), turn_);
  LossScale scale(net.graph, scaling);
  if (scale.seed() != kNoId) ScaleNumbersOfGradients(net.graph, scale.seed());
  std::vector<ValueId> gradients = DifferentiateNet(net, trained, scale.seed());
  DecayUnreached(net.graph, solver_, trained, gradients);
  for (size_t i = 0; i < trained.size(); ++i) {
    if (gradients[i] != kNoId) reached_.push_back(trained[i]);
  }
  if (world_ != nullptr) {
    std::unique_ptr<GradientCompression> wanted = CompressionOf(solver_, scaling, seed_, *world_);
    if (exchange_) exchange_->SetCompression(std::move(wanted));
  }
  GradientCompression* compression = exchange_ ? exchange_->compression() : nullptr;
  const double part = exchange_ ? 1.0 / world_->size() : 1.0;

  if (solver_.iter_size() == 1 && !IsServed()) {
    ValueId loss = net.loss;
    if (exchange_) SumWhole(net.graph, trained, gradients, loss);
    AllowWeights(net.graph, trained, gradients, compression);
    std::vector<ValueId> sums;  // of reached_
    if (shards_) {
      std::ranges::copy_if(gradients, std::back_inserter(sums), [](ValueId sum) { return sum != kNoId; });
      owned_ = ShareOut(reached_, world_->size());
      const std::vector<NetBlob>& own = owned_[static_cast<size_t>(world_->rank())];
      for (size_t i = 0; i < trained.size(); ++i) {
        if (std::ranges::find(own, trained[i].name, &NetBlob::name) == own.end()) gradients[i] = kNoId;
      }
    }
    const ValueId guard =
        scale.Guard(loss, scale.seed() == kNoId ? gradients : GradientsToGuard(net.graph, trained, gradients));
    // Statistics that are not summed are of this rank's batch; with delays the sum of losses is of an earlier one.
    GuardAssignments(net.graph, delay() > 0 ? net.loss : guard);
    updates_ = AddUpdates(net.graph, {.solver = &solver_,
                                      .blobs = trained,
                                      .gradients = gradients,
                                      .guard = guard,
                                      .gradient_scale = part,
                                      .unscale = scale.unscale(),
                                      .net = &param_,
                                      .corrected = CorrectedBlobs(trained, compression),
                                      .split = NormsOverRanks()});
    scale.Finish();
    if (shards_) ShareUpdates(net.graph, sums);
    AddSlots(updates_.slots, store);
  } else {
    GuardAssignments(net.graph, net.loss);
    AddAccumulation(net.graph, trained, gradients);
    if (IsServed()) {  // the updates are the servers'
      updates_.slots = ServedUpdates::Slots({.solver = &solver_, .net = &param_, .blobs = reached_});
      return AddSlots(updates_.slots, store);
    }
    OverRanks over_ranks;
    std::vector<NetBlob> statistics;
    for (const NetBlob& blob : blobs_) {
      if (blob.role == ParameterRole::kStatistic && !blob.shared) statistics.push_back(blob);
    }
    if (exchange_) {
      over_ranks = [&](Graph& graph, std::vector<ValueId>& sums, ValueId& loss) {
        SumOverAll(graph, sums, loss, statistics);
        AllowWeights(graph, reached_, sums, compression);
      };
    }
    UpdateGraph update = BuildUpdateGraph(StandardCatalog(), solver_, reached_, &param_, scaling, over_ranks, part,
                                          CorrectedBlobs(reached_, compression));
    updates_ = update.updates;
    AddSlots(updates_.slots, store);
    CompileOptions update_options = options;
    update_options.name = "update";
    update_options.collectives = exchange_;
    update_ = Compile(std::move(update.graph), store, update_options);
  }
}

void TrainNet::SumOverAll(Graph& graph, std::vector<ValueId>& gradients, ValueId& loss,
                          std::span<const NetBlob> statistics) {
  const GraphBuilder b(graph, NodeOrigin{"(ranks)", {}, "communicate"});
  for (const NetBlob& blob : statistics) {
    const ValueId state = graph.AddState(blob.name, {DType::kFloat32, blob.shape, {}});
    graph.Assign(state, state);
  }
  std::vector<ValueId> values = {graph.AddInput(std::string(kWishesName), {DType::kFloat32, Shape{kWishes}, {}}), loss};
  // Statistics that were some iterations late would lose what came between: each rank keeps its own until all agree.
  const bool sums_statistics = delay() == 0;
  if (sums_statistics) {
    for (const Assignment& assignment : graph.assignments()) values.push_back(assignment.value);
  }
  const size_t first = values.size();
  values.insert(values.end(), gradients.begin(), gradients.end());
  const auto [sums, keys, fence] = SumOverRanks(graph, values, 2);
  fence_ = fence;
  exchanged_ = std::ranges::max(keys) + 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] >= 0) (i < first ? exact_keys_ : gradient_keys_).push_back(keys[i]);
  }

  const std::string mean = StrCat("x0/", world_->size());
  graph.AddOutput(std::string(kWishesName), sums[0]);
  loss = b.Pointwise(mean, {sums[1]});
  std::erase_if(graph.outputs(), [](const GraphOutput& output) { return output.name == kLossOutput; });
  graph.AddOutput(std::string(kLossOutput), loss);
  for (size_t i = 0; sums_statistics && i < graph.assignments().size(); ++i) {
    graph.assignments()[i].value = b.Pointwise(mean, {sums[2 + i]});
  }
  std::copy(sums.begin() + static_cast<std::ptrdiff_t>(first), sums.end(), gradients.begin());
}

void TrainNet::BindInputs(Program& updating) {
  if (exchange_) {
    wishes_in_ = updating.input(kWishesName);
    wishes_out_ = updating.output(kWishesName);
  }
  for (const std::string& name : updates_.inputs) scalars_.push_back({name, updating.input(name)});
  if (step_->HasInput("random_key")) random_key_ = step_->input("random_key");
  loss_ = step_->output(kLossOutput);
  if (update_ && exchange_) loss_of_all_ = update_->output(kLossOutput);
  const std::vector<std::string> outputs = updating.OutputNames();
  const auto has = [&](std::string_view name) { return std::ranges::find(outputs, name) != outputs.end(); };
  if (has(kSkippedOutput)) skipped_ = updating.output(kSkippedOutput);
  if (has(kLossScaleState)) loss_scale_ = updating.output(kLossScaleState);
}

std::optional<double> TrainNet::loss_scale() const {
  if (loss_scale_.raw() == nullptr) return std::nullopt;
  return ran_->loss_scale_.as<const float>()[0];
}

double TrainNet::overflowed_at() const { return skipped_.raw() == nullptr ? 0 : ran_->skipped_.as<const float>()[0]; }

void TrainNet::SetInputs(int64_t iteration, int64_t updates, int micro_batch, int plateau_step) {
  if (random_key_.raw() != nullptr)
    random_key_.as<int64_t>()[0] =
        RandomKey(seed_, updates, micro_batch + solver_.iter_size() * (world_ == nullptr ? 0 : world_->rank()));
  if (micro_batch != 0) return;
  for (const ScalarInput& scalar : scalars_) {
    scalar.tensor.as<float>()[0] = static_cast<float>(
        UpdateInput(solver_, scalar.name, CountsUpdates(scalar.name) ? updates : iteration, plateau_step));
  }
}

std::vector<std::string> TrainNet::Statistics() const {
  std::vector<std::string> names;
  for (const NetBlob& blob : blobs_) {
    if (blob.role == ParameterRole::kStatistic && !blob.shared) names.push_back(blob.name);
  }
  return names;
}

void TrainNet::MakeStrategy(const CompileOptions& options, ParameterStore& store) {
  if (IsServed()) {
    strategy_ = std::make_unique<ServedUpdates>(
        *world_, store,
        ServedUpdates::Setting{
            .solver = &solver_, .net = &param_, .blobs = reached_, .statistics = Statistics(), .compile = options});
    return;
  }
  std::vector<std::string> names = Statistics();
  for (const NetBlob& blob : reached_) names.push_back(blob.name);
  for (const SlotState& slot : updates_.slots) {
    if (!slot.blob.empty()) names.push_back(slot.name);  // not what counts iterations for loss scaling
  }
  strategy_ = std::make_unique<LocalSgd>(*world_, solver_, store, std::move(names));
}

void TrainNet::PrepareDelays(ParameterStore& store) {
  store_ = &store;
  exchange_->SetDelay(delay(), solver_.distributed().dynamic_delay(), exact_keys_, exact_keys_[1]);
  for (const NetBlob& blob : reached_) {
    for (int age = 1; age <= delay(); ++age) {
      updates_.slots.push_back({SlotName(blob.name, StrCat(kWaitingSlot, age)), blob.name, blob.shape});
      store.Add(updates_.slots.back().name, blob.shape);
    }
  }
}

void TrainNet::SaveWaiting(ParameterStore& store) const {
  for (size_t i = 0; delay() > 0 && i < reached_.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(reached_[i].shape.Count()));
    for (int age = 1; age <= delay(); ++age) {
      exchange_->SaveWaiting(gradient_keys_[i], age, values);
      store.Set(SlotName(reached_[i].name, StrCat(kWaitingSlot, age)), values);
    }
  }
}

void TrainNet::LoadWaiting(const ParameterStore& store, float scale) {
  for (size_t i = 0; delay() > 0 && i < reached_.size(); ++i) {
    for (int age = 1; age <= delay(); ++age) {
      std::vector<float> values = store.Values(SlotName(reached_[i].name, StrCat(kWaitingSlot, age)));
      for (float& value : values) value *= scale;
      exchange_->LoadWaiting(gradient_keys_[i], age, values);
    }
  }
}

double TrainNet::Step(int64_t iteration, int plateau_step, bool must_agree, int turn_step) {
  if (pipeline_) return StepPipeline(iteration, plateau_step);
  double sum = 0;
  const int batches = solver_.iter_size();
  if (exchange_) std::ranges::copy(wishes_.wanted, wishes_in_.as<float>().begin());
  if (exchange_) exchange_->SetIteration(iteration);
  if (strategy_) strategy_->Begin(iteration);
  cut_.Begin(feed_);
  for (int i = 0; i < batches; ++i) {
    if (i > 0 && cut_.Leaves(feed_)) return 0;
    feed_.Next();
    ran_ = &NetOfBatch();
    ran_->SetInputs(iteration, iteration * turn_.steps() + turn_step, i, plateau_step);
    ran_->step_->Run();
    const double loss = ran_->loss_.as<float>()[0];
    sum += loss;
    if (std::isfinite(loss)) continue;
    // The inputs stay for FindNonFinite. A training that goes on takes as many batches as in any iteration: the other
    // ranks do, and positions are counted so.
    while (solver_.on_nan() != SolverParameter::STOP && ++i < batches) feed_.Next();
    break;
  }
  if (update_) {
    // Runs even after a bad batch: the guard keeps the weights and the sums are zeroed for the next iteration.
    update_->input("guard").as<float>()[0] = static_cast<float>(sum);
    update_->Run();
    if (exchange_) sum = loss_of_all_.as<float>()[0];
  }
  double loss = sum / batches;
  if (exchange_) {
    exchange_->Check();
    for (size_t i = 0; i < wishes_.counted.size(); ++i) {
      const bool repeats = wishes_.repeats[i] > 0;
      wishes_.counted[i] = repeats ? 0 : static_cast<int>(wishes_out_.as<float>()[i]);
      if (repeats) --wishes_.repeats[i];
      if (wishes_.counted[i] > 0) wishes_.repeats[i] = delay();
    }
  }
  if (strategy_) loss = strategy_->Finish(iteration, loss, must_agree, wishes_);
  const bool is_wished = std::ranges::any_of(wishes_.counted, [](int count) { return count > 0; });
  if (delay() > 0 && (must_agree || is_wished)) {
    exchange_->Drain();
    MeanOverRanks(*world_, *store_, Statistics());
  }
  if (delay() > 0 && (iteration + 1) % GradientExchange::kAdaptEvery == 0) exchange_->AdaptDelays();
  for (size_t i = 0; i < wishes_.counted.size(); ++i) {
    if (wishes_.counted[i] > 0) wishes_.wanted[i] = 0;
  }
  return loss;
}

std::vector<OutputValue> TrainNet::Outputs() const {
  return pipeline_ ? PipelineOutputs() : ReadOutputs(*ran_->step_, outputs_);
}

void TrainNet::StartMeans(ParameterStore& store) const {
  for (const SlotState& slot : updates_.slots) {
    if (slot.name == SlotName(slot.blob, kEmaSlot)) store.Set(slot.name, store.Values(slot.blob));
  }
}

}  // namespace moka
