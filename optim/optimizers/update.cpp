// Puts the parts in order: unscale, clip by the norm of all gradients, the optimiser's terms, masks, and the
// exponential mean; each parameter ends in one pointwise node.
#include "optim/optimizers/update.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "graph/term.h"
#include "optim/optimizers/gradient_sums.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/optimizer.h"
#include "optim/optimizers/solver_fields.h"
#include "proto/text/places.h"

namespace moka {
namespace {

GraphBuilder UpdateBuilder(Graph& graph, std::string layer) {
  return {graph, NodeOrigin{std::move(layer), {}, "update"}};
}

// The scalar min(1, limit / |all gradients together|) that every gradient is multiplied by.
ValueId ClipScale(const GraphBuilder& b, const UpdateSpec& spec) {
  const Term x = Term::Input(0);
  const Term square = spec.unscale != kNoId ? Square(x * Term::Input(1)) : Square(x);
  std::vector<ValueId> whole = spec.gradients;
  std::vector<ValueId> parts(whole.size(), kNoId);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (spec.split.Has(spec.blobs[i].name)) std::swap(whole[i], parts[i]);
  }
  ValueId squares = SumOverGradients(b, whole, square, spec.unscale);
  if (const ValueId own = SumOverGradients(b, parts, square, spec.unscale); own != kNoId) {
    const ValueId all = spec.split.Sum(b, own, "clip");
    squares = squares == kNoId ? all : b.Pointwise(x + Term::Input(1), {squares, all});
  }
  if (squares == kNoId) return kNoId;
  const double limit = spec.solver->clip_gradients();
  const Term norm = Sqrt(x) * std::abs(spec.gradient_scale);
  return b.Pointwise(Select(norm > limit, limit / norm, 1), {squares});
}

// Fields that forks have for some solvers only, or that have no effect here, must not be passed over in silence.
void RefuseForeignFields(const SolverParameter& solver, const Optimizer& optimizer) {
  const auto refuse = [&](bool is_given, std::string_view field, std::string_view text) {
    if (is_given) throw Error(ErrorKind::kConfig, PlaceOf(solver, field), StrCat(field, text));
  };
  std::vector<Error> unknown = UnknownFieldsOf(solver.origin());
  if (!unknown.empty()) throw ErrorList(std::move(unknown));
  const bool is_sgd = solver.type() == "SGD";
  for (const auto& [field, is_given] :
       {std::pair{"larc", solver.larc()}, std::pair{"local_lr_auto", solver.local_lr_auto()},
        std::pair{"momentum_policy", solver.momentum_policy() != "fixed"}}) {
    refuse(!is_sgd && is_given, field, StrCat(" works with type \"SGD\", and it is \"", solver.type(), "\""));
  }
  refuse(solver.larc_turbo(), "larc_turbo", " is not part of Moka; larc without it is");
  refuse(solver.larc() && solver.local_lr_auto(), "local_lr_auto", " and larc are two forms of one rate; set one");
  refuse(solver.has_clamp_weights_lower(), "clamp_weights_lower", " is not part of Moka");
  refuse(solver.has_clamp_weights_upper(), "clamp_weights_upper", " is not part of Moka");
  refuse(solver.disabled_update(), "disabled_update", " is not part of Moka");
  refuse(solver.force_decay() != 0, "force_decay", " (force regularisation) is not part of Moka");
  refuse(solver.prune_method() != "None", "prune_method", " is not part of Moka; \"None\" trains without pruning");
  for (const auto& [field, is_given] : {std::pair{"breadth_decay", solver.breadth_decay() != 0},
                                        std::pair{"kernel_shape_decay", solver.kernel_shape_decay() != 0},
                                        std::pair{"block_group_decay", solver.block_group_decay() != 0}}) {
    refuse(is_given && optimizer.decays_apart, field, StrCat(" does not work with type \"", solver.type(), "\""));
  }
}

}  // namespace

void CheckOptimizer(const SolverParameter& solver) {
  CheckSolverNumbers(solver);
  const Optimizer* optimizer = FindOptimizer(solver.type());
  if (optimizer == nullptr) {
    std::vector<std::string> names;
    for (const Optimizer& o : Optimizers()) names.push_back(o.name);
    std::string hint = DidYouMean(solver.type(), names);
    if (hint.empty()) hint = StrCat("known are ", Join(names, ", "));
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "type"), StrCat("unknown solver type \"", solver.type(), "\""),
                hint);
  }
  const std::string& decay = solver.regularization_type();
  if (decay != "L1" && decay != "L2") {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "regularization_type"),
                StrCat("unknown regularization_type \"", decay, "\""), "known are L1, L2");
  }
  if (solver.clip_weights() < 0 && solver.clip_weights() != -1) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver, "clip_weights"),
                StrCat("clip_weights must be at least 0, or -1 for none, and is ", solver.clip_weights()));
  }
  if (optimizer->check != nullptr) optimizer->check(solver);
  RefuseForeignFields(solver, *optimizer);
}

std::vector<NetBlob> TrainedBlobs(std::span<const NetBlob> blobs) {
  std::vector<NetBlob> trained;
  std::set<std::string> seen;
  for (const NetBlob& blob : blobs) {
    if (blob.shared || blob.lr_mult == 0 || blob.role == ParameterRole::kStatistic) continue;
    if (seen.insert(blob.name).second) trained.push_back(blob);
  }
  return trained;
}

std::vector<NetBlob> StatisticBlobs(std::span<const NetBlob> blobs) {
  std::vector<NetBlob> statistics;
  std::ranges::copy_if(blobs, std::back_inserter(statistics),
                       [](const NetBlob& blob) { return blob.role == ParameterRole::kStatistic && !blob.shared; });
  return statistics;
}

Updates AddUpdates(Graph& graph, const UpdateSpec& spec) {
  Require(spec.blobs.size() == spec.gradients.size(), "AddUpdates: a gradient for each blob");
  const Optimizer* optimizer = FindOptimizer(spec.solver->type());
  Require(optimizer != nullptr, "AddUpdates: CheckOptimizer passed");
  Updates updates;
  ValueId clip = kNoId;
  if (spec.solver->clip_gradients() >= 0) clip = ClipScale(UpdateBuilder(graph, "(clip)"), spec);
  for (size_t i = 0; i < spec.blobs.size(); ++i) {
    if (spec.gradients[i] == kNoId) continue;
    ParameterUpdate::Shared shared{.solver = *spec.solver,
                                   .builder = UpdateBuilder(graph, spec.blobs[i].layer),
                                   .guard = spec.guard,
                                   .clip = clip,
                                   .unscale = spec.unscale,
                                   .scale = spec.gradient_scale / spec.solver->iter_size(),
                                   .net = spec.net,
                                   .corrected = spec.corrected,
                                   .split = spec.split,
                                   .updates = &updates};
    ParameterUpdate update(shared, spec.blobs[i], spec.gradients[i]);
    optimizer->emit(update);
    update.Finish();
  }
  return updates;
}

double UpdateInput(const SolverParameter& solver, std::string_view name, int64_t iter, int plateau_step) {
  const auto t = static_cast<double>(iter);
  if (name == "lr") return LearningRate(solver, iter, plateau_step);
  if (name == "momentum") return MomentumAt(solver, iter);
  if (name == "weight_decay") return WeightDecayAt(solver, iter);
  if (name == "bias1") return 1 - std::pow(double{solver.momentum()}, t + 1);
  if (name == "bias2") return 1 - std::pow(double{solver.momentum2()}, t + 1);
  if (name == "gradient_momentum") return iter < solver.distributed().compression().start_iter() ? 1 : 0;
  Require(name == "ema_decay", StrCat("update input ", name, " is known"));
  return std::min(double{solver.ema_decay()}, (1 + t) / (10 + t));
}

bool CountsUpdates(std::string_view name) { return name == "bias1" || name == "bias2" || name == "ema_decay"; }

void GuardAssignments(Graph& graph, ValueId guard) {
  const GraphBuilder b = UpdateBuilder(graph, "(guard)");
  for (size_t i = 0; i < graph.assignments().size(); ++i) {
    const Assignment old = graph.assignments()[i];
    const Term kept = Select(IsFinite(Term::Input(0)), Term::Input(1), Term::Input(2));
    graph.assignments()[i].value = b.Pointwise(kept, {guard, old.value, old.state});
  }
}

std::vector<SlotState> AddAccumulation(Graph& graph, std::span<const NetBlob> blobs,
                                       std::span<const ValueId> gradients) {
  std::vector<SlotState> slots;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (gradients[i] == kNoId) continue;
    const GraphBuilder b = UpdateBuilder(graph, blobs[i].layer);
    const std::string name = SlotName(blobs[i].name, kSumSlot);
    const ValueId sum = graph.AddState(name, {DType::kFloat32, blobs[i].shape, {}});
    graph.Assign(sum, b.Pointwise(Term::Input(0) + Term::Input(1), {sum, gradients[i]}));
    slots.push_back({name, blobs[i].name, blobs[i].shape});
  }
  return slots;
}

UpdateGraph BuildUpdateGraph(const Catalog& catalog, const SolverParameter& solver, std::span<const NetBlob> blobs,
                             const NetParameter* net, const LossScaling& scaling, const OverRanks& over_ranks,
                             double gradient_scale, const std::vector<std::string>& corrected) {
  UpdateGraph built{Graph(catalog), {}};
  Graph& graph = built.graph;
  UpdateSpec spec{
      .solver = &solver, .blobs = {blobs.begin(), blobs.end()}, .gradients = {}, .guard = kNoId, .net = net};
  spec.gradient_scale = gradient_scale;
  spec.corrected = corrected;
  ValueId loss = graph.AddInput("guard", {DType::kFloat32, Shape{}, {}});
  std::vector<SlotState> sums;
  std::vector<ValueId> own_sums;
  for (NetBlob& blob : spec.blobs) {
    const TensorType type{DType::kFloat32, blob.shape, {}};
    blob.state = graph.AddState(blob.name, type);
    const std::string name = SlotName(blob.name, kSumSlot);
    own_sums.push_back(graph.AddState(name, type));
    sums.push_back({name, blob.name, blob.shape});
  }
  spec.gradients = own_sums;
  if (over_ranks) over_ranks(graph, spec.gradients, loss);
  LossScale scale(graph, scaling);
  spec.unscale = scale.unscale();
  spec.guard = scale.Guard(loss, spec.gradients);
  built.updates = AddUpdates(graph, spec);
  scale.Finish();
  for (size_t i = 0; i < sums.size(); ++i) {
    const GraphBuilder b = UpdateBuilder(graph, spec.blobs[i].layer);
    graph.Assign(own_sums[i], b.Full(spec.blobs[i].shape, 0));
  }
  built.updates.slots.insert(built.updates.slots.end(), sums.begin(), sums.end());
  return built;
}

}  // namespace moka
