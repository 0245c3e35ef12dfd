// Makes a solver for each turn from the common one and the turn's fields, and runs the turns' nets in order over one
// store.
#include "optim/step/train_turns.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "layers/net/named_layers.h"
#include "optim/optimizers/loss_scale.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/update.h"
#include "optim/pipeline/stages.h"
#include "optim/precision.h"
#include "optim/step/turn_scope.h"
#include "proto/text/places.h"

namespace moka {
namespace {

std::string TurnField(size_t i, std::string_view field) { return StrCat("turn[", i, "].", field); }

[[noreturn]] void FailTurn(const SolverParameter& solver, size_t i, std::string_view field, const std::string& text,
                           std::string hint = {}) {
  throw Error(ErrorKind::kConfig, PlaceOf(solver, TurnField(i, field)), text, std::move(hint));
}

// The common solver with the turn's fields in place of its.
SolverParameter SolverOfTurn(const SolverParameter& solver, const TrainTurn& turn) {
  SolverParameter own = solver;
  if (turn.has_type()) own.set_type(turn.type());
  if (turn.has_base_lr()) own.set_base_lr(turn.base_lr());
  if (turn.has_momentum()) own.set_momentum(turn.momentum());
  if (turn.has_momentum2()) own.set_momentum2(turn.momentum2());
  if (turn.has_rms_decay()) own.set_rms_decay(turn.rms_decay());
  if (turn.has_weight_decay()) own.set_weight_decay(turn.weight_decay());
  if (turn.has_clip_gradients()) own.set_clip_gradients(turn.clip_gradients());
  if (turn.has_clip_weights()) own.set_clip_weights(turn.clip_weights());
  return own;
}

void CheckTurn(const SolverParameter& solver, size_t i) {
  const TrainTurn& turn = solver.turn(static_cast<int>(i));
  if (turn.name().empty())
    FailTurn(solver, i, "name", StrCat("turn ", i, " has no name"), "give it one, name: \"generator\"");
  if (turn.name().find_first_of("/:@ ") != std::string::npos) {
    FailTurn(solver, i, "name",
             StrCat("a turn's name has no /, :, @ or space, and this is \"", Printable(turn.name()), "\""));
  }
  for (size_t other = 0; other < i; ++other) {
    if (solver.turn(static_cast<int>(other)).name() == turn.name())
      FailTurn(solver, i, "name", StrCat("two turns are called \"", turn.name(), "\""));
  }
  if (turn.steps() < 1) FailTurn(solver, i, "steps", StrCat("steps must be at least 1, and is ", turn.steps()));
}

NetParameter Joined(const std::vector<std::pair<std::string, const NetParameter*>>& nets) {
  NetParameter whole;
  whole.set_name(nets.front().second->name());
  *whole.mutable_state() = nets.front().second->state();
  for (const auto& [turn, net] : nets) {
    for (const LayerParameter& layer : net->layer()) {
      LayerParameter& copy = *whole.add_layer();
      copy = layer;
      copy.clear_include();
      copy.clear_exclude();
      copy.add_include()->add_stage(turn);
    }
  }
  return whole;
}

}  // namespace

void RefuseBesideTurns(const SolverParameter& solver, const SolverNets& nets, int64_t processes, Compute compute) {
  if (solver.turn_size() == 0) return;
  const auto refuse = [&](bool is_given, std::string_view field, std::string_view text) {
    if (!is_given) return;
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver, field), StrCat(text, " does not work with turn yet"),
                "train without it, or one net");
  };
  refuse(processes > 1, "turn", "training by several ranks");
  refuse(solver.iter_size() > 1, "iter_size", "iter_size above 1");
  refuse(solver.has_snapshot_prefix(), "snapshot_prefix", "snapshot_prefix (Caffe's snapshots are of one net)");
  refuse(solver.lr_policy() == "plateau", "lr_policy", "lr_policy \"plateau\"");
  refuse(solver.noise_scale_interval() > 0, "noise_scale_interval", "noise_scale_interval");
  for (size_t i = 0; i < nets.turns.size(); ++i) {
    refuse(HasStages(nets.turns[i]), TurnField(i, "net"), "pipeline_stage");
    const LossScaling scaling = ScalingOf(solver, nets.turns[i], PrecisionOf(solver, nets.turns[i], compute));
    refuse(scaling.is_dynamic || scaling.scale != 1, "loss_scale", "a loss_scale");
  }
}

TrainTurns::TrainTurns(const SolverParameter& solver, const SolverNets& nets, const Make& make) {
  const auto add = [&](const TrainTurn& rule, const NetParameter& net) {
    Turn& turn = turns_.emplace_back(Turn{rule, std::make_unique<SolverParameter>(SolverOfTurn(solver, rule)), {}});
    CheckOptimizer(*turn.solver);
    turn.net = make(net, *turn.solver, turn.rule);
  };
  if (solver.turn_size() == 0) add(TrainTurn(), nets.train);
  for (size_t i = 0; i < nets.turns.size(); ++i) {
    CheckTurn(solver, i);
    add(solver.turn(static_cast<int>(i)), nets.turns[i]);
  }
  std::set<std::pair<std::string, int>> seen;
  for (const Turn& turn : turns_) {
    for (const NetBlob& blob : turn.net->blobs()) {
      if (seen.emplace(blob.layer, blob.index).second) blobs_.push_back(blob);
    }
  }
  const auto has_end = [](const Turn& turn) { return turn.net->feed().epoch_size() > 0; };
  const auto found = std::ranges::find_if(turns_, has_end);
  if (found != turns_.end()) lead_ = static_cast<size_t>(found - turns_.begin());
}

void TrainTurns::SetLength(int32_t max_iter) {
  for (Turn& turn : turns_) {
    turn.solver->set_max_iter(max_iter);
    CheckLrPolicy(*turn.solver);
  }
}

double TrainTurns::Step(int64_t iteration, int plateau_step, bool must_agree) {
  double sum = 0;
  bool is_finite = true;
  for (size_t i = 0; i < turns_.size(); ++i) {
    const Turn& turn = turns_[i];
    double of_turn = 0;
    for (int step = 0; step < turn.rule.steps(); ++step) {
      const double loss = turn.net->Step(iteration, plateau_step, must_agree, step);
      of_turn += loss / turn.rule.steps();
      if (std::isfinite(loss)) continue;
      if (is_finite) failed_ = i;
      is_finite = false;
      if (turn.solver->on_nan() == SolverParameter::STOP) return loss;  // the batch stays for FindNonFinite
    }
    sum += of_turn;
  }
  return sum;
}

std::vector<OutputValue> TrainTurns::Outputs() const {
  std::vector<OutputValue> all;
  for (const Turn& turn : turns_) {
    for (OutputValue& output : turn.net->Outputs()) {
      if (alternates()) output.name = StrCat(turn.rule.name(), "/", output.name);
      all.push_back(std::move(output));
    }
  }
  return all;
}

NetParameter TrainTurns::WholeNet() const {
  if (!alternates()) return turns_.front().net->param();
  std::vector<std::pair<std::string, const NetParameter*>> nets;
  for (const Turn& turn : turns_) nets.emplace_back(turn.rule.name(), &turn.net->param());
  return Joined(nets);
}

std::vector<std::string> AllSlots(const TrainTurns& turns) {
  std::vector<std::string> names;
  for (size_t i = 0; i < turns.size(); ++i) {
    for (std::string& name : turns.net(i).states().AllSlots()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

std::vector<std::string> OwnSlots(const TrainTurns& turns) {
  std::vector<std::string> names;
  for (size_t i = 0; i < turns.size(); ++i) {
    for (const SlotState& slot : turns.net(i).states().slots()) {
      if (std::ranges::find(names, slot.name) == names.end()) names.push_back(slot.name);
    }
  }
  return names;
}

std::optional<std::string> SetSlot(const TrainTurns& turns, const std::string& name, const StateTensor& whole,
                                   ParameterStore& store) {
  for (size_t i = 0; i < turns.size(); ++i) {
    if (std::optional<std::string> own = turns.net(i).states().SetSlot(name, whole, store)) return own;
  }
  return std::nullopt;
}

bool StartMeansOfStatistics(const TrainTurns& turns, std::vector<std::string>& missing, ParameterStore& store) {
  const size_t before = missing.size();
  for (const NetBlob& blob : StatisticBlobs(turns.blobs())) {
    const std::string slot = SlotName(blob.name, kEmaSlot);
    if (std::erase(missing, slot) > 0) store.Set(slot, store.Values(blob.name));
  }
  return missing.size() < before;
}

void StartMeans(const TrainTurns& turns, ParameterStore& store) {
  for (size_t i = 0; i < turns.size(); ++i) turns.net(i).states().StartMeans(store);
}

void SavePositions(const TrainTurns& turns, std::map<std::string, int64_t>& positions) {
  for (size_t i = 0; i < turns.size(); ++i) turns.net(i).feed().SavePositions(positions);
}

void Seek(const TrainTurns& turns, const std::map<std::string, int64_t>& positions) {
  for (size_t i = 0; i < turns.size(); ++i) turns.net(i).feed().Seek(positions);
}

NetParameter WholeTrainNet(const SolverParameter& solver, const SolverNets& nets) {
  const auto named = [](NetParameter net) {
    NameLayers(net);
    return net;
  };
  if (nets.turns.empty()) return named(nets.train);
  std::vector<NetParameter> turns;
  turns.reserve(nets.turns.size());
  std::vector<std::pair<std::string, const NetParameter*>> parts;
  for (size_t i = 0; i < nets.turns.size(); ++i) {
    turns.push_back(named(nets.turns[i]));
    parts.emplace_back(solver.turn(static_cast<int>(i)).name(), &turns.back());
  }
  return Joined(parts);
}

}  // namespace moka
