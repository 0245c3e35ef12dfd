// The list of passes, each with when a step has it, and the walk through it.
#include "optim/step/training_graph.h"

#include "optim/step/training_passes.h"

namespace moka {

std::vector<TrainingPass> PassesOf(const TrainingSpec& spec) {
  using namespace training_passes;  // NOLINT(google-build-using-namespace): the list reads as one
  const StepRanks& ranks = spec.ranks;
  const bool is_pipeline = spec.stages.has_value();
  const bool is_served = ranks.kind == StrategyKind::kServed;
  const bool is_whole = !is_pipeline && !is_served && spec.solver.iter_size() == 1;
  const bool is_apart = !is_pipeline && !is_served && !is_whole;
  const bool has_means = spec.solver.ema_decay() > 0;
  struct Row {
    bool is_asked;
    TrainingPass pass;
  };
  const Row rows[] = {
      {true, {"keep other statistics", KeepOtherStatistics}},
      {true, {"name outputs", NameOutputs}},
      {!is_pipeline, {"compose", Compose}},  // layers of two stages stay apart
      {true, {"share subsamples", ShareSubsampling}},
      {is_pipeline, {"prepare stages", PrepareStages}},
      {!is_pipeline, {"scale the loss", ScaleLoss}},
      {true, {"differentiate", DifferentiateLoss}},
      {true, {"decay unreached weights", DecayUnreachedWeights}},
      {ranks.world != nullptr, {"choose compression", ChooseCompression}},
      {is_whole && ranks.exchange != nullptr, {"sum over ranks", SumOverAllRanks}},
      {is_whole && ranks.shards_updates, {"shard updates", ShardUpdates}},
      {is_whole, {"guard", GuardStates}},
      {is_whole, {"update", UpdateWeights}},
      {is_whole && has_means, {"mean statistics", MeanStatistics}},
      {is_whole && ranks.shards_updates, {"gather from owners", GatherFromOwners}},
      {is_apart || is_served, {"guard statistics", GuardStatistics}},
      {!is_whole, {"accumulate", Accumulate}},
      {is_apart, {"update apart", UpdateApart}},
      {is_apart && has_means, {"mean statistics", MeanStatistics}},
      {is_served, {"update on servers", UpdateOnServers}},
      {is_pipeline, {"cut into stages", CutIntoStages}},
      {true, {"keep states", KeepStates}},
      {spec.delay() > 0, {"keep waiting sums", KeepWaitingSums}},
  };
  std::vector<TrainingPass> passes;
  for (const Row& row : rows) {
    if (row.is_asked) passes.push_back(row.pass);
  }
  return passes;
}

TrainingGraph BuildTrainingGraph(BuiltNet& net, const TrainingSpec& spec, ParameterStore& store) {
  AddLossScaleStates(spec.scaling, store);
  TrainingGraph step{.spec = spec, .net = net};
  for (const TrainingPass& pass : PassesOf(spec)) pass.apply(step);
  for (const SlotState& slot : step.updates.slots) {
    if (!store.Has(slot.name)) store.Add(slot.name, slot.shape);
  }
  return step;
}

}  // namespace moka
