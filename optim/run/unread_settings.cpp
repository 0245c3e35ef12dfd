// Gathers the sentences of the rooms that know what is read, and logs them.
#include "optim/run/unread_settings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/text.h"
#include "graph/program.h"
#include "optim/evaluators/evaluator.h"
#include "optim/optimizers/groups.h"
#include "optim/optimizers/solver_fields.h"

namespace moka {
namespace {

void Warn(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) LogWarning(sentence);
}

bool Recomputes(TrainNet& net) {
  const std::vector<PassReport>& passes = net.program().report().passes;
  const auto pass = std::ranges::find(passes, "recompute", &PassReport::name);
  return pass != passes.end() && pass->changed;
}

}  // namespace

void WarnOfUnread(const SolverParameter& solver, const SolverNets& nets, Compute compute) {
  const auto evaluates = [](const NetParameter& net) {
    return std::ranges::any_of(net.layer(), [](const LayerParameter& layer) { return HasEvaluator(layer.type()); });
  };
  SolverContext context;
  context.finds_loss_scale = ScalingOf(solver, nets.train, compute).is_dynamic;
  context.has_classes = std::ranges::any_of(nets.tests, evaluates);
  TellGroups(WholeTrainNet(solver, nets), context);
  Warn(UnreadSolverFields(solver, context));
  Warn(UnreadTypes(nets.train, compute));
}

void WarnOfUnread(const SolverParameter& solver, const SolverNets& nets, const TrainTurns& turns, bool recompute) {
  Warn(UnreadGroupFields(solver, WholeTrainNet(solver, nets), turns.blobs()));
  for (size_t i = 0; i < turns.size() && recompute; ++i) recompute = !Recomputes(turns.net(i));
  if (recompute)
    LogWarning("recompute changes nothing here: no batch norm's result is kept for the backward pass alone");
}

}  // namespace moka
