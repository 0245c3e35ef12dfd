// The passes of a training step in which several ranks differ from one: sums, split rows, sharded updates.
#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

#include "comm/exchange/sum_over_ranks.h"
#include "core/text.h"
#include "layers/net/catalog.h"
#include "optim/optimizers/gradient_sums.h"
#include "optim/optimizers/statistic_means.h"
#include "optim/step/compression_policy.h"
#include "optim/step/gradient_norms.h"
#include "optim/step/training_passes.h"
#include "optim/strategies/ownership.h"
#include "optim/strategies/served_updates.h"

namespace moka {
namespace {

GradientCompression* CompressionIn(const TrainingGraph& step) {
  return step.spec.ranks.exchange == nullptr ? nullptr : step.spec.ranks.exchange->announced().compression();
}

// The factor that makes a sum of gradients over the ranks their mean.
double PartOfRank(const StepRanks& ranks) { return ranks.exchange == nullptr ? 1.0 : 1.0 / ranks.world->size(); }

// Takes the gradients of blobs whose rows are split out of `gradients`, by index; kNoId elsewhere.
std::vector<ValueId> TakeParts(const TrainingGraph& step, std::vector<ValueId>& gradients) {
  std::vector<ValueId> parts(gradients.size(), kNoId);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (FindPart(step.spec.ranks.splits, step.trained[i].name) != nullptr) std::swap(parts[i], gradients[i]);
  }
  return parts;
}

SplitNorms NormsOverRanks(const TrainingGraph& step) {
  const StepRanks& ranks = step.spec.ranks;
  SplitNorms norms;
  for (const SplitBlob& split : ranks.splits) norms.blobs.push_back(split.part);
  if (!ranks.splits.empty()) norms.ranks = ranks.world->size();
  norms.fence = step.summed.fence;
  return norms;
}

// Returns the values that the guard looks at. All ranks skip an update together: a part that is not finite on one of
// them makes a scalar NaN on all.
std::vector<ValueId> GradientsToGuard(TrainingGraph& step) {
  std::vector<ValueId> gradients = step.gradients;
  const std::vector<ValueId> parts = TakeParts(step, gradients);
  const GraphBuilder b(step.net.graph, NodeOrigin{"(ranks)", {}, "update"});
  const ValueId own = SumOverGradients(b, parts, Select(IsFinite(Term::Input(0)), 0, 1));
  if (own == kNoId) return gradients;
  const ValueId all = NormsOverRanks(step).Sum(b, own, "overflow");
  gradients.push_back(b.Pointwise(Sqrt(Select(Term::Input(0) > 0, -1, 0)), {all}));
  return gradients;
}

// Gradients, the loss, wishes and the new values of statistics become those of all ranks. The statistics are those that
// the graph assigns, or `statistics`, which it comes to assign.
void SumOverAll(TrainingGraph& step, Graph& graph, std::vector<ValueId>& gradients, ValueId& loss,
                std::span<const NetBlob> statistics) {
  const GraphBuilder b(graph, NodeOrigin{"(ranks)", {}, "communicate"});
  for (const NetBlob& blob : statistics) {
    const ValueId state = graph.AddState(blob.name, {DType::kFloat32, blob.shape, {}});
    graph.Assign(state, state);
  }
  std::vector<ValueId> values = {graph.AddInput(std::string(kWishesName), {DType::kFloat32, Shape{kWishes}, {}}), loss};
  const bool is_measured = MeasuresNorms(step.spec.solver);
  ValueId is_on = kNoId;
  if (is_measured) {
    is_on = graph.AddInput(std::string(kMeasuresInput), {DType::kFloat32, Shape{}, {}});
    values.push_back(SquaresOf(graph, gradients, is_on, true));
  }
  const size_t small = values.size();
  // Statistics that were some iterations late would lose what came between: each rank keeps its own until all agree.
  const bool sums_statistics = step.spec.delay() == 0;
  if (sums_statistics) {
    for (const Assignment& assignment : graph.assignments()) values.push_back(assignment.value);
  }
  const size_t first = values.size();
  values.insert(values.end(), gradients.begin(), gradients.end());
  const auto [sums, keys, fence] = SumOverRanks(graph, values, small);
  step.summed.fence = fence;
  step.summed.next_key = std::ranges::max(keys) + 1;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] >= 0) (i < first ? step.summed.exact : step.summed.gradients).push_back(keys[i]);
  }

  const std::string mean = StrCat("x0/", step.spec.ranks.world->size());
  graph.AddOutput(std::string(kWishesName), sums[0]);
  loss = b.Pointwise(mean, {sums[1]});
  std::erase_if(graph.outputs(), [](const GraphOutput& output) { return output.name == kLossOutput; });
  graph.AddOutput(std::string(kLossOutput), loss);
  for (size_t i = 0; sums_statistics && i < graph.assignments().size(); ++i) {
    graph.assignments()[i].value = b.Pointwise(mean, {sums[small + i]});
  }
  std::copy(sums.begin() + static_cast<std::ptrdiff_t>(first), sums.end(), gradients.begin());
  if (!is_measured) return;
  graph.AddOutput(std::string(kOwnSquaresOutput), sums[2]);
  graph.AddOutput(std::string(kSumSquaresOutput), SquaresOf(graph, gradients, is_on, false));
}

}  // namespace

namespace training_passes {

void ChooseCompression(TrainingGraph& step) {
  const StepRanks& ranks = step.spec.ranks;
  std::unique_ptr<GradientCompression> wanted =
      CompressionOf(step.spec.solver, step.spec.scaling, ranks.seed, *ranks.world);
  if (ranks.exchange != nullptr) ranks.exchange->SetCompression(std::move(wanted));
}

void SumOverAllRanks(TrainingGraph& step) {
  // A part's gradient is the sum over ranks as it is: its rank has computed it from the rows of all.
  const std::vector<ValueId> parts = TakeParts(step, step.gradients);
  SumOverAll(step, step.net.graph, step.gradients, step.loss, {});
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != kNoId) step.gradients[i] = parts[i];
  }
  AllowWeights(step.net.graph, step.trained, step.gradients, CompressionIn(step));
}

void ShardUpdates(TrainingGraph& step) {
  const Communicator& world = *step.spec.ranks.world;
  std::ranges::copy_if(step.gradients, std::back_inserter(step.sums), [](ValueId sum) { return sum != kNoId; });
  step.owned = ShareOut(step.reached, world.size());
  const std::vector<NetBlob>& own = step.owned[static_cast<size_t>(world.rank())];
  for (size_t i = 0; i < step.trained.size(); ++i) {
    if (std::ranges::find(own, step.trained[i].name, &NetBlob::name) == own.end()) step.gradients[i] = kNoId;
  }
}

void GuardStates(TrainingGraph& step) {
  const bool is_scaled = step.scale->seed() != kNoId;
  step.loss = step.scale->Guard(step.loss, is_scaled ? GradientsToGuard(step) : step.gradients);
  // Statistics that are not summed are of this rank's batch; with delays the sum of losses is of an earlier one.
  GuardAssignments(step.net.graph, step.spec.delay() > 0 ? step.net.loss : step.loss);
}

void UpdateWeights(TrainingGraph& step) {
  step.updates = AddUpdates(step.net.graph, {.solver = &step.spec.solver,
                                             .blobs = step.trained,
                                             .gradients = step.gradients,
                                             .guard = step.loss,
                                             .gradient_scale = PartOfRank(step.spec.ranks),
                                             .unscale = step.scale->unscale(),
                                             .net = &step.spec.param,
                                             .corrected = CorrectedBlobs(step.trained, CompressionIn(step)),
                                             .split = NormsOverRanks(step)});
  step.scale->Finish();
}

void MeanStatistics(TrainingGraph& step) {
  std::vector<NetBlob> moving = StatisticBlobs(step.net.blobs);
  const auto is_kept = [&](const NetBlob& blob) {
    return std::ranges::find(step.net.graph.assignments(), blob.state, &Assignment::state) ==
           step.net.graph.assignments().end();
  };
  std::erase_if(moving, is_kept);
  if (!step.apart) return AddMeansOfStatistics(step.net.graph, moving, step.loss, step.updates);
  AddMeansOfStatistics(step.apart->graph, moving, kNoId, step.apart->updates);
  step.updates = step.apart->updates;
}

void GatherFromOwners(TrainingGraph& step) {
  Graph& graph = step.net.graph;
  std::vector<OwnedWeight> weights;
  std::vector<size_t> assigned;  // index among the assignments
  for (size_t i = 0; i < step.reached.size(); ++i) {
    const NetBlob& blob = step.reached[i];
    auto it = std::ranges::find(graph.assignments(), blob.state, &Assignment::state);
    const bool is_own = it != graph.assignments().end();
    weights.push_back({.state = blob.state,
                       .sum = step.sums[i],
                       .updated = is_own ? it->value : kNoId,
                       .layer = blob.layer,
                       .key = step.summed.next_key + static_cast<int64_t>(i)});
    if (!is_own) {
      graph.Assign(blob.state, step.sums[i]);  // until it is given what comes from its owner
      it = std::prev(graph.assignments().end());
    }
    assigned.push_back(static_cast<size_t>(it - graph.assignments().begin()));
  }
  const std::vector<ValueId> gathered = GatherOwned(graph, weights, step.summed.fence);
  for (size_t i = 0; i < gathered.size(); ++i) graph.assignments()[assigned[i]].value = gathered[i];
  step.all_slots = ServedUpdates::Slots({.solver = &step.spec.solver, .net = &step.spec.param, .blobs = step.reached});
  std::erase_if(step.all_slots, [](const SlotState& slot) { return slot.name == SlotName(slot.blob, kSumSlot); });
}

void UpdateApart(TrainingGraph& step) {
  const TrainingSpec& spec = step.spec;
  OverRanks over_ranks;
  if (spec.ranks.exchange != nullptr) {
    over_ranks = [&step](Graph& graph, std::vector<ValueId>& sums, ValueId& loss) {
      SumOverAll(step, graph, sums, loss, StatisticBlobs(step.net.blobs));
      AllowWeights(graph, step.reached, sums, CompressionIn(step));
    };
  }
  step.apart = BuildUpdateGraph(StandardCatalog(), spec.solver, step.reached, &spec.param, spec.scaling, over_ranks,
                                PartOfRank(spec.ranks), CorrectedBlobs(step.reached, CompressionIn(step)));
  step.updates = step.apart->updates;
}

}  // namespace training_passes

void SetWays(const TrainingGraph& step) {
  const SummedValues& summed = step.summed;
  GradientExchange& exchange = *step.spec.ranks.exchange;
  const DistributedParameter& distributed = step.spec.solver.distributed();
  if (const int delay = step.spec.delay(); delay > 0) {
    exchange.SetDelay(delay, distributed.dynamic_delay(), summed.exact, summed.exact[1]);
  }
  for (size_t rank = 0; rank < step.owned.size(); ++rank) {
    for (const NetBlob& blob : step.owned[rank]) {
      const auto i = std::ranges::find(step.reached, blob.name, &NetBlob::name) - step.reached.begin();
      const int owner = static_cast<int>(rank);
      exchange.SetRoute(summed.gradients[static_cast<size_t>(i)], {GradientWay::kToOwner, owner});
      exchange.SetRoute(summed.next_key + i, {GradientWay::kFromOwner, owner});
    }
  }
  if (WireOf(distributed.wire()) == Wire::kFloat32) return;
  for (const int64_t key : summed.exact) exchange.SetRoute(key, {GradientWay::kExactToAll});
}

}  // namespace moka
