// Finds the strategy by name and refuses what it cannot go with; the mean over ranks is the one collective that all
// strategies share.
#include "optim/strategies/strategy.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {
namespace {

void CheckStrategyNumbers(const SolverParameter& solver) {
  const DistributedParameter& param = solver.distributed();
  const auto at_least = [&](std::string_view field, int64_t value, int64_t least) {
    if (value >= least) return;
    throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat("distributed.", field)),
                StrCat(field, " must be at least ", least, ", and is ", value));
  };
  at_least("local_steps", param.local_steps(), 1);
  at_least("local_from_iter", param.local_from_iter(), 0);
  at_least("staleness", param.staleness(), 0);
  at_least("delay", param.delay(), 0);
}

// Refuses what needs all gradients of an iteration in one place, or the same history on all ranks.
void RefuseBeside(const SolverParameter& solver, StrategyKind kind) {
  const std::string name = StrCat("strategy \"", solver.distributed().strategy(), "\"");
  const auto refuse = [&](bool is_given, std::string_view field) {
    if (!is_given) return;
    throw Error(ErrorKind::kConfig, PlaceOf(solver, field), StrCat(field, " does not work with ", name),
                "leave it out, or train with strategy: \"synchronous\"");
  };
  refuse(solver.lr_policy() == "plateau", "lr_policy");
  if (kind == StrategyKind::kServed) refuse(solver.clip_gradients() >= 0, "clip_gradients");
  if (kind != StrategyKind::kLocal) refuse(solver.has_loss_scale(), "loss_scale");
  if (kind != StrategyKind::kServed) {
    refuse(solver.distributed().delay_compensation() != 0, "distributed.delay_compensation");
  }
}

}  // namespace

StrategyKind StrategyOf(const SolverParameter& solver) {
  const DistributedParameter& param = solver.distributed();
  const std::vector<std::string> known = {"synchronous", "delayed", "local", "turn", "parameter_server"};
  const auto check = [&](std::string_view field, const std::string& value, const std::vector<std::string>& names) {
    if (std::ranges::find(names, value) != names.end()) return;
    std::string hint = DidYouMean(value, names);
    if (hint.empty()) hint = StrCat("known are ", Join(names, ", "));
    throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat("distributed.", field)),
                StrCat("unknown ", field, " \"", Printable(value), "\""), hint);
  };
  check("strategy", param.strategy(), known);
  check("server", param.server(), {"synchronous", "asynchronous", "stale"});
  CheckStrategyNumbers(solver);
  StrategyKind kind = StrategyKind::kSynchronous;
  if (param.strategy() == "delayed" && param.delay() > 0) kind = StrategyKind::kDelayed;
  if (param.strategy() == "local") kind = StrategyKind::kLocal;
  if (param.strategy() == "turn" || param.strategy() == "parameter_server") kind = StrategyKind::kServed;
  if (kind != StrategyKind::kSynchronous) RefuseBeside(solver, kind);
  return kind;
}

bool ShardsUpdates(const SolverParameter& solver) {
  if (!solver.distributed().shard_updates()) return false;
  const auto refuse = [&](bool is_given, std::string_view field) {
    if (!is_given) return;
    throw Error(ErrorKind::kConfig, PlaceOf(solver, field), StrCat(field, " does not work with shard_updates"),
                "leave one of them out");
  };
  // Each of these is of all gradients or weights together, which no rank has.
  refuse(solver.clip_gradients() >= 0, "clip_gradients");
  refuse(solver.has_loss_scale(), "loss_scale");
  refuse(solver.ema_decay() > 0, "ema_decay");
  refuse(solver.iter_size() > 1, "iter_size");
  refuse(StrategyOf(solver) != StrategyKind::kSynchronous, "distributed.strategy");
  refuse(solver.distributed().compression().method() != "none", "distributed.compression");
  return true;
}

void Wishes::Count(size_t wish, int sum, int delay) {
  const bool repeats = repeats_[wish] > 0;
  counted_[wish] = repeats ? 0 : sum;
  if (repeats) --repeats_[wish];
  if (counted_[wish] > 0) repeats_[wish] = delay;
}

bool Wishes::is_any_counted() const {
  return std::ranges::any_of(counted_, [](int count) { return count > 0; });
}

void Wishes::DropCounted() {
  for (size_t i = 0; i < counted_.size(); ++i) {
    if (counted_[i] > 0) wanted_[i] = 0;
  }
}

void MeanOverRanks(Communicator& world, ParameterStore& store, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::vector<float> own = store.Values(name);
    std::vector<double> sums(own.begin(), own.end());
    world.Sum(sums);
    std::vector<float> mean;
    for (const double sum : sums) mean.push_back(static_cast<float>(sum / world.size()));
    store.Set(name, mean);
  }
}

}  // namespace moka
