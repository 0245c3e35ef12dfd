// The passes of a training step that ask nothing of other ranks, and those of parameter servers and of states in
// checkpoints; the others are in rank_passes.cpp and stage_passes.cpp.
#include "optim/step/training_passes.h"

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "graph/autodiff.h"
#include "graph/pass.h"
#include "layers/net/catalog.h"
#include "optim/step/turn_scope.h"
#include "optim/step/unreached_blobs.h"
#include "optim/strategies/served_updates.h"
#include "proto/text/places.h"

namespace moka::training_passes {
namespace {

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

}  // namespace

void KeepOtherStatistics(TrainingGraph& step) { moka::KeepOtherStatistics(step.net, step.spec.turn); }

void NameOutputs(TrainingGraph& step) {
  Graph& graph = step.net.graph;
  for (const BuiltNet::Output& output : step.net.outputs) graph.AddOutput(output.name, output.value);
  if (step.net.loss != kNoId) graph.AddOutput(std::string(kLossOutput), step.net.loss);
}

void Compose(TrainingGraph& step) { ComposeForward(step.net.graph); }

void ShareSubsampling(TrainingGraph& step) { ShareSubsamples(step.net.graph); }

void ScaleLoss(TrainingGraph& step) {
  step.scale.emplace(step.net.graph, step.spec.scaling);
  if (step.scale->seed() != kNoId) ScaleNumbersOfGradients(step.net.graph, step.scale->seed());
}

void DifferentiateLoss(TrainingGraph& step) {
  BuiltNet& net = step.net;
  if (net.loss == kNoId) {
    throw Error(ErrorKind::kConfig, PlaceOf(net.param),
                StrCat("the train net \"", net.param.name(), "\" has no loss, so there is nothing to train it by"),
                "add a loss layer such as SoftmaxWithLoss, or give a layer a loss_weight");
  }
  step.loss = net.loss;
  step.trained = TrainedInTurn(TrainedBlobs(net.blobs), step.spec.turn);
  if (step.trained.empty()) {
    LogWarning(
        StrCat(PlaceOf(net.param).ToString(), ": the train net \"", net.param.name(),
               "\" has no parameter with an lr_mult above 0: no weight learns, and only running statistics change"));
    return;
  }
  std::vector<ValueId> wanted;
  wanted.reserve(step.trained.size());
  for (const NetBlob& blob : step.trained) wanted.push_back(blob.state);
  step.gradients = Differentiate(net.graph, net.loss, wanted, step.scale ? step.scale->seed() : kNoId);
}

void DecayUnreachedWeights(TrainingGraph& step) {
  DecayUnreached(step.net.graph, step.spec.solver, step.trained, step.gradients);
  for (size_t i = 0; i < step.trained.size(); ++i) {
    if (step.gradients[i] != kNoId) step.reached.push_back(step.trained[i]);
  }
}

void GuardStatistics(TrainingGraph& step) { GuardAssignments(step.net.graph, step.net.loss); }

void Accumulate(TrainingGraph& step) { AddAccumulation(step.net.graph, step.trained, step.gradients); }

void UpdateOnServers(TrainingGraph& step) {
  if (step.spec.solver.ema_decay() > 0 && !StatisticBlobs(step.net.blobs).empty()) {
    LogWarning(StrCat(PlaceOf(step.spec.solver, "ema_decay").ToString(),
                      ": with parameter servers weights have means, and running statistics do not: tests of means are "
                      "worse than the weights deserve"));
  }
  step.updates.slots =
      ServedUpdates::Slots({.solver = &step.spec.solver, .net = &step.spec.param, .blobs = step.reached});
}

void KeepStates(TrainingGraph& step) {
  std::vector<SlotState>& slots = step.updates.slots;
  for (const KeptState& kept : step.net.kept) slots.push_back({kept.name, {}, kept.shape});
  if (!step.spec.scaling.is_dynamic) return;
  slots.push_back({std::string(kLossScaleState), {}, Shape{}});
  slots.push_back({std::string(kGoodStepsState), {}, Shape{}});
}

void KeepWaitingSums(TrainingGraph& step) {
  for (const NetBlob& blob : step.reached) {
    for (int age = 1; age <= step.spec.delay(); ++age) {
      step.updates.slots.push_back({SlotName(blob.name, StrCat(kWaitingSlot, age)), blob.name, blob.shape});
    }
  }
}

}  // namespace moka::training_passes
