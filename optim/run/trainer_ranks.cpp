// Trainer: what several ranks do together.
#include <algorithm>
#include <chrono>

#include "comm/exchange/compression_forecast.h"
#include "core/checksum.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "graph/kernel_search.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/pipeline/stages.h"
#include "optim/ranks/batch_policy.h"
#include "optim/run/trainer.h"
#include "optim/signals.h"
#include "proto/text/places.h"

namespace moka {
namespace {

// Kernels are timed and databases opened by one rank while the others wait.
constexpr std::chrono::minutes kSlowWork(20);
// Iterations after which the backward pass is known well enough to plan by: soon, and once more when caches are warm.
constexpr int kFirstPlan = 3;
constexpr int kSecondPlan = 20;

enum Wish { kStop, kSnapshot, kTime };

ExchangeOptions OptionsOf(const SolverParameter& solver) {
  const DistributedParameter& param = solver.distributed();
  ExchangeOptions options;
  options.algorithm = param.algorithm();
  options.fusion = solver.layer_wise_reduce() ? param.fusion() : "single";
  options.bucket_bytes = param.bucket_bytes();
  options.wire = WireOf(param.wire());
  options.has_fixed_order = solver.deterministic();
  return options;
}

}  // namespace

// The first rank chooses the kernels, so that all compute by the same ones.
void Trainer::BuildTrainNet(const SolverNets& nets, const PipelineOptions& data) {
  const auto build = [&] {
    const auto make = [&](const NetParameter& net, const SolverParameter& solver, const TrainTurn& turn) {
      const TrainNetOptions own{
          .data = data, .seed = seed_, .compile = options_.compile, .world = options_.world, .turn = turn};
      return std::make_unique<TrainNet>(net, solver, own, store_);
    };
    turns_ = std::make_unique<TrainTurns>(solver_, nets, make);
    train_ = &turns_->lead();
  };
  if (ranks() == 1) return build();
  options_.world->SetPatience(kSlowWork);
  const std::shared_ptr<KernelSearch>& search = options_.compile.search;
  if (is_first()) build();
  const std::string times = options_.world->Broadcast(is_first() && search != nullptr ? search->Used() : std::string());
  if (is_first()) return;
  if (search != nullptr) options_.compile.search = search->After(times);
  build();
}

BatchPolicy Trainer::Batches() const {
  return {.ranks = ranks(),
          .of_rank = train_->feed().batch_size(),
          .iter_size = solver_.iter_size(),
          .is_global = HasGlobalBatch(solver_)};
}

void Trainer::StartPipeline(const NetParameter& net) {
  is_pipeline_ = processes() > 1 && HasStages(net);
  if (!is_pipeline_) return;
  RefuseInPipeline(solver_);
  solver_.set_iter_size(solver_.distributed().micro_batches());
  options_.world->SetPatience(kSlowWork);
}

SolverParameter Trainer::GivenSolver() const {
  SolverParameter given = solver_;
  if (is_pipeline_) given.clear_iter_size();
  return given;
}

void Trainer::JoinRanks() {
  // Ranks that agree now and then only do not meet at the end of an epoch.
  if (train_->strategy() == nullptr && !is_pipeline_) {
    scaling_ = std::make_unique<ScalingReport>(ranks() == 1 ? nullptr : options_.world, train_->exchange(),
                                               train_->feed(), Batches(), options_.baseline);
    scaling_->Start(state_.iteration, 0);
  }
  if (processes() == 1) return;
  Communicator& world = *options_.world;
  const auto deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(double{solver_.distributed().deadline_s()}));
  if (is_pipeline_) {
    world.Barrier();
    world.SetPatience(deadline);
    if (is_first()) {
      LogInfo(StrCat("a pipeline of ", processes(), " stages, ", solver_.iter_size(), " micro-batches of ",
                     train_->feed().batch_size()));
    }
    return;
  }
  if (train_->exchange() != nullptr) train_->exchange()->CheckAnnounced();
  if (train_->strategy() != nullptr) train_->strategy()->Join();
  uint64_t hash = 0;
  for (const NamedBlob& blob : WeightsOf(train_->blobs(), store_)) {
    const auto* bytes = reinterpret_cast<const char*>(blob.values.data());
    hash = Hash64({bytes, blob.values.size() * sizeof(float)}, hash);
  }
  const std::vector<std::string> hashes = world.AllGather(std::to_string(hash));
  const auto differs = std::ranges::find_if(hashes, [&](const std::string& other) { return other != hashes[0]; });
  if (differs != hashes.end()) {
    throw Error(ErrorKind::kConfig, SourcePlace{},
                StrCat(world.NameOf(static_cast<int>(differs - hashes.begin())), " starts from other weights than ",
                       world.NameOf(0)),
                "give every rank the same files, solver and seed");
  }
  if (train_->exchange() != nullptr) PlanExchange();
  if (is_first()) {
    LogInfo(Batches().Describe(double{solver_.base_lr()}));
    LogInfo(Batches().DescribeSchedule(solver_, train_->feed().epoch_size()));
    LogInfo(planner_ != nullptr ? planner_->Describe() : train_->strategy()->Describe());
  }
  world.SetPatience(deadline);
}

void Trainer::PlanExchange() {
  GradientExchange& exchange = *train_->exchange();
  try {
    planner_ = std::make_unique<ExchangePlanner>(*options_.world, OptionsOf(solver_), exchange.device());
  } catch (const Error& error) {
    throw Error(error.kind(), PlaceOf(solver_, "distributed"), error.text(), error.hint());
  }
  int64_t bytes = 0;
  for (const ExchangedGradient& gradient : exchange.announced().all()) bytes += gradient.bytes;
  planner_->Measure(bytes);
  planner_->Plan(exchange);
  if (state_.iteration > 0) {
    // The update divides by the number of ranks.
    const int64_t then = state_.waiting_ranks == 0 ? ranks() : state_.waiting_ranks;
    train_->states().LoadWaiting(store_, static_cast<float>(ranks()) / static_cast<float>(then));
  }
  CheckCompression();
}

bool Trainer::MustAgree() const {
  if (ranks() == 1) return false;
  const int64_t done = state_.iteration + 1;
  const auto is_due = [&](int64_t interval) { return interval > 0 && done % interval == 0; };
  return done >= max_iter_ || done == options_.stop_after || is_due(solver_.snapshot()) ||
         (!tests_.empty() && is_due(solver_.test_interval()));
}

bool Trainer::IsTogether() const {
  const GradientExchange* exchange = train_->exchange();
  return train_->strategy() == nullptr && (exchange == nullptr || exchange->delays() == nullptr);
}

void Trainer::CancelExchange(const std::string& why) const noexcept {
  if (GradientExchange* exchange = train_->exchange(); exchange != nullptr) exchange->Cancel(why);
  if (Strategy* strategy = train_->strategy(); strategy != nullptr) strategy->Cancel(why);
}

void Trainer::CheckCompression() const {
  const GradientExchange& exchange = *train_->exchange();
  if (exchange.announced().compression() == nullptr) return;
  const CompressionParameter& param = solver_.distributed().compression();
  const CompressionForecast forecast = ForecastCompression(*options_.world, exchange, planner_->costs(),
                                                           planner_->plan(), WireOf(solver_.distributed().wire()));
  const std::string text = forecast.Describe(param.method());
  if (forecast.compressed == 0) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver_, "distributed"),
                StrCat("compression \"", param.method(), "\" finds no weight of ", param.min_elements(),
                       " elements whose payload is smaller"),
                "lower min_elements, or take method: \"none\"");
  }
  if (!forecast.Pays() && !param.force()) {
    throw Error(ErrorKind::kConfig, PlaceOf(solver_, "distributed"), StrCat("compression does not pay: ", text),
                "take method: \"none\", or force: true to train with it all the same");
  }
  if (is_first()) LogInfo(StrCat("compression ", text));
}

void Trainer::Watch(const std::filesystem::path& run_folder) {
  for (const auto& test : tests_) test->SetOutputFolder(run_folder / "outputs");
  if (processes() == 1) return;
  reporter_.Start(*options_.world, train_->exchange(),
                  {.run_folder = run_folder,
                   .deadline_s = double{solver_.distributed().deadline_s()},
                   .ranks = static_cast<int>(ranks()),
                   .batch = HasGlobalBatch(solver_) ? train_->feed().batch_size() * ranks() : 0});
}

void Trainer::Replan() {
  if (planner_ == nullptr) return;
  const int64_t done = state_.iteration - started_at_ + 1;
  if (done != kFirstPlan && done != kSecondPlan) return;
  train_->exchange()->Drain();
  planner_->Plan(*train_->exchange());
  scaling_->Start(state_.iteration + 1, train_s_);
  // No plan follows that needs to know when each gradient is ready.
  DeviceExchange* device = train_->exchange()->device();
  if (done == kSecondPlan && device != nullptr) device->TakeTimesOfGradients(false);
  if (is_first()) LogToFile(planner_->Describe());
}

void Trainer::LogExchange() const {
  if (planner_ == nullptr) return;
  for (const std::string& line : Split(planner_->Explain(*train_->exchange()), '\n')) {
    if (!line.empty()) LogToFile(line);
  }
}

// Signals and the clock reach one rank or another; all act on them in the same iteration.
void Trainer::TellWishes() {
  if (processes() == 1) return;
  ReadWishes();
  if (wants_stop_) train_->wishes().Want(kStop);
  if (wants_snapshot_) train_->wishes().Want(kSnapshot);
  if (is_first() && is_time_up_) train_->wishes().Want(kTime);
}

void Trainer::TakeWishes() {
  if (processes() == 1) return ReadWishes();
  wants_stop_ = train_->wishes().count(kStop) > 0;
  wants_snapshot_ = train_->wishes().count(kSnapshot) > 0;
  is_time_up_ = train_->wishes().count(kTime) > 0;
}

void Trainer::ReadWishes() {
  if (options_.take_signals) {
    const SignalEffect request = SignalRequests::Take();
    wants_stop_ = wants_stop_ || request == SignalEffect::kStop;
    wants_snapshot_ = wants_snapshot_ || request == SignalEffect::kSnapshot;
  }
  is_time_up_ = IsTimeUp();
}

// Time to write the checkpoint is kept back, half as much again as the last one took.
bool Trainer::IsTimeUp() const {
  const double passed_s = std::chrono::duration<double>(Clock::now() - started_).count();
  return time_limit_s_ > 0 && passed_s + 1.5 * checkpoint_s_ >= time_limit_s_;
}

std::vector<OutputValue> Trainer::OverRanks(std::vector<OutputValue> outputs) const {
  if (processes() == 1) return outputs;
  if (GradientExchange* exchange = train_->exchange(); exchange != nullptr) exchange->Drain();
  std::vector<double> values;
  for (const OutputValue& output : outputs) values.push_back(is_pipeline_ && !is_first() ? 0 : output.value);
  options_.world->Sum(values);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].value = values[i] / static_cast<double>(ranks());
  return outputs;
}

void Trainer::ShareTest(int net, bool is_evaluated, PipelineOptions& data) const {
  data.rank = 0;
  data.world = 1;
  if (ranks() == 1) return;
  // An evaluator adds up rows (those of all detections make one curve); the ranks' results have no mean that is the
  // whole's.
  if (is_evaluated || solver_.test_iter(net) % ranks() != 0) {
    if (is_first()) {
      LogInfo(StrCat("test net ", net, ": each of ", ranks(), " ranks tests all of its ", solver_.test_iter(net),
                     " batches", is_evaluated ? "" : ", as their number does not divide among them"));
    }
    return;
  }
  data.rank = options_.world->rank();
  data.world = ranks();
  data.whole_batches = true;
}

// The first rank writes; the others wait for it past the deadline as long as it says that it does.
void Trainer::AwaitSnapshot() {
  if (processes() > 1) options_.world->Barrier();
}

}  // namespace moka
