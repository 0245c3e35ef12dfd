// Tier "fast": a training of a few steps on made-up data by the trainer itself, its checkpoint, and the same training
// resumed from there.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "optim/run/trainer.h"
#include "tools/zoo/checks.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr double kMemoryTolerance = 0.1;  // kernels of other machines want other scratch

constexpr double kLossRounding = 1e-4;  // of a loss, by other kernels

// A folder of this process for as long as this lives.
class ScratchFolder {
 public:
  ScratchFolder() : path_(fs::temp_directory_path() / StrCat("moka_zoo_", getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class LossObserver : public TrainObserver {
 public:
  void OnIteration(const TrainProgress& progress) override { losses.push_back(progress.loss); }
  std::vector<double> losses;
};

// The recipe's solver for `steps` small steps: its optimiser with a fixed rate, nothing tested, saved once in the
// middle.
SolverParameter ShortSolver(SolverParameter solver, const ZooCheck& check, const NetParameter& train) {
  const int64_t batch = BatchOf(train) * std::max(solver.iter_size(), 1);
  if (batch > 0) {
    const double share = std::min(1.0, static_cast<double>(check.batch()) / static_cast<double>(batch));
    solver.set_base_lr(static_cast<float>(static_cast<double>(solver.base_lr()) * share));
  }
  solver.set_lr_policy("fixed");
  solver.clear_min_lr();  // of a rate that falls
  solver.clear_warmup_iter();
  solver.clear_warmup_start_lr();
  solver.clear_policy_after_warmup();
  solver.clear_rampup_interval();
  solver.clear_rampup_lr();
  solver.set_iter_size(1);
  solver.set_max_iter(check.steps());
  solver.clear_max_epochs();
  solver.clear_max_time();
  solver.set_average_loss(1);
  solver.set_display(0);
  solver.clear_test_iter();
  solver.set_test_interval(0);
  solver.clear_target_metric();
  solver.clear_target_value();
  solver.clear_best_metric();
  solver.clear_early_stop_patience();
  solver.set_eval_type("classification");
  solver.clear_sample_grid();  // of a test
  solver.set_snapshot(std::max(check.steps() / 2, 1));
  solver.clear_snapshot_prefix();
  solver.set_snapshot_after_train(false);
  solver.clear_weights();
  solver.set_random_seed(1);
  return solver;
}

// The card's overrides come last, so that they can set what the short training sets.
RecipeNets ShortTraining(const ZooEntry& entry) {
  const ZooCheck& check = entry.card.check();
  RecipeNets recipe = ReadRecipe(entry, entry.card.recipe(0), {check.override().begin(), check.override().end()});
  const SolverParameter given = recipe.solver;
  recipe.solver = ShortSolver(given, check, recipe.nets.train);
  for (const std::string& text : check.override()) {
    if (text.starts_with("base_lr=")) recipe.solver.set_base_lr(given.base_lr());
  }
  recipe.nets.train = WithMadeUpData(recipe.nets.train, check, check.batch());
  for (NetParameter& turn : recipe.nets.turns) turn = WithMadeUpData(turn, check, check.batch());
  recipe.nets.tests.clear();
  return recipe;
}

// A number of each state: its name, size and bytes.
std::vector<std::pair<std::string, uint64_t>> HashesOf(const ParameterStore& store) {
  std::vector<std::pair<std::string, uint64_t>> hashes;
  for (const std::string& name : store.Names()) {
    const std::vector<float> values = store.Values(name);
    const auto bytes = std::as_bytes(std::span(values));
    hashes.emplace_back(name, StableHash({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  return hashes;
}

double MeanLoss(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string HashDifference(const std::vector<std::pair<std::string, uint64_t>>& unbroken,
                           const std::vector<std::pair<std::string, uint64_t>>& resumed) {
  if (unbroken.size() != resumed.size())
    return StrCat(resumed.size(), " states after the resumed training, ", unbroken.size(), " after the unbroken one");
  std::vector<std::string> names;
  for (size_t i = 0; i < unbroken.size(); ++i) {
    if (unbroken[i] != resumed[i]) names.push_back(unbroken[i].first);
  }
  if (names.empty()) return {};
  return StrCat(names.size(), " of ", unbroken.size(), " states differ, the first is ", names.front());
}

std::string LossDifference(const ExpectedTraining& expected, const ExpectedTraining& found, double tolerance) {
  for (const auto& [name, want, have] : {std::tuple("first", expected.first_loss, found.first_loss),
                                         std::tuple("last", expected.last_loss, found.last_loss)}) {
    const double fall = std::abs(expected.first_loss - expected.last_loss);
    if (std::abs(want - have) <= tolerance * fall + kLossRounding * std::abs(want)) continue;
    return fmt::format("the {} loss is {:.6g}, expected {:.6g}", name, have, want);
  }
  return {};
}

}  // namespace

TrainingFound TrainOnMadeUpData(const ZooEntry& entry) {
  const QuietScope quiet;
  const ScratchFolder scratch;
  const RecipeNets recipe = ShortTraining(entry);
  TrainingFound found;
  found.training.batch = entry.card.check().batch();
  found.training.steps = entry.card.check().steps();
  RunIdentity identity;
  identity.name = "check";
  fs::path middle;
  std::vector<std::pair<std::string, uint64_t>> unbroken;
  {
    RunFolder run = RunFolder::Create(scratch.path(), identity);
    LossObserver observer;
    TrainerOptions options;
    options.take_signals = false;
    options.observer = &observer;
    options.run = &run;
    Trainer trainer(recipe.solver, recipe.nets, std::move(options));
    trainer.Run();
    found.losses = std::move(observer.losses);
    unbroken = HashesOf(trainer.store());
    middle = run.checkpoints() / CheckpointName(recipe.solver.snapshot());
  }  // a large net's store goes before the next one comes
  if (!found.losses.empty()) {
    found.training.first_loss = found.losses.front();
    found.training.last_loss = found.losses.back();
  }
  TrainerOptions options;
  options.take_signals = false;
  options.resume = LoadCheckpoint(middle);
  Trainer trainer(recipe.solver, recipe.nets, std::move(options));
  trainer.Run();
  found.difference = HashDifference(unbroken, HashesOf(trainer.store()));
  return found;
}

ExpectedMemory MeasureMemory(const ZooEntry& entry) {
  const QuietScope quiet;
  RecipeNets recipe = ReadRecipe(entry, entry.card.recipe(0));
  const int64_t batch = std::max<int64_t>(BatchOf(recipe.nets.train), 1);
  recipe.nets.train = WithMadeUpData(recipe.nets.train, entry.card.check(), batch);
  for (NetParameter& turn : recipe.nets.turns) turn = WithMadeUpData(turn, entry.card.check(), batch);
  ParameterStore store;
  const TrainTurns turns(
      recipe.solver, recipe.nets, [&](const NetParameter& net, const SolverParameter& solver, const TrainTurn& turn) {
        return std::make_unique<TrainNet>(net, solver, TrainNetOptions{.seed = 1, .turn = turn}, store);
      });
  ExpectedMemory memory{batch, 0};
  for (size_t i = 0; i < turns.size(); ++i) memory.bytes += turns.net(i).program().report().memory.arena_bytes;
  return memory;
}

std::vector<CheckResult> CheckTraining(const CheckContext& context) {
  const TrainingFound found = TrainOnMadeUpData(context.entry);
  std::vector<CheckResult> results;
  const std::string range = fmt::format("from {:.4g} to {:.4g} in {} steps", found.training.first_loss,
                                        found.training.last_loss, found.training.steps);
  // Means of a quarter of the steps: dropout and noise move single losses.
  const size_t part = std::max<size_t>(found.losses.size() / 4, 1);
  const std::span<const double> losses = found.losses;
  const bool is_lower = losses.size() >= 2 && MeanLoss(losses.last(part)) < MeanLoss(losses.first(part));
  if (!is_lower) {
    results.push_back(Fails("training", StrCat("the loss does not fall: ", range)));
  } else if (!context.expected || !context.expected->training) {
    results.push_back(Fails("training", StrCat(kExpectedFile, " has no training (--update writes it)")));
  } else {
    const std::string difference =
        LossDifference(*context.expected->training, found.training, context.entry.card.check().tolerance());
    results.push_back(difference.empty() ? Holds("training", StrCat("the loss falls ", range))
                                         : Fails("training", difference));
  }
  results.push_back(found.difference.empty()
                        ? Holds("resume", StrCat("saved, loaded and resumed at step ", found.training.steps / 2,
                                                 ": all states are the same bit for bit"))
                        : Fails("resume", found.difference));
  return results;
}

std::vector<CheckResult> CheckMemory(const CheckContext& context) {
  const ExpectedMemory found = MeasureMemory(context.entry);
  const std::string text = StrCat(BytesText(found.bytes), " planned for a training step of batch ", found.batch);
  if (!context.expected || !context.expected->memory)
    return {Fails("memory", StrCat(kExpectedFile, " has no memory (--update writes it)"))};
  const ExpectedMemory& expected = *context.expected->memory;
  const auto want = static_cast<double>(expected.bytes);
  if (expected.batch != found.batch || std::abs(static_cast<double>(found.bytes) - want) > kMemoryTolerance * want) {
    return {Fails("memory", StrCat(text, ", expected ", BytesText(expected.bytes), " for batch ", expected.batch))};
  }
  return {Holds("memory", text)};
}

}  // namespace moka
