// Trainer: building the nets, first weights, resuming and checkpoints.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "comm/transport/rank_values.h"
#include "core/error.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/caffe_state.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/checkpoint/start_weights.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/solver_fields.h"
#include "optim/optimizers/update.h"
#include "optim/precision.h"
#include "optim/run/mlperf_start.h"
#include "optim/run/sample_grid.h"
#include "optim/run/target.h"
#include "optim/run/trainer.h"
#include "optim/run/unread_settings.h"
#include "optim/signals.h"
#include "optim/step/compression_policy.h"
#include "optim/step/turn_scope.h"
#include "optim/strategies/distributed_words.h"
#include "proto/nets/net_file.h"
#include "proto/text/places.h"
#include "proto/weights/weight_diffs.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailToStart(const SolverParameter& solver, std::string_view field, std::string text,
                              std::string hint = {}) {
  throw Error(ErrorKind::kConfig, PlaceOf(solver, field), std::move(text), std::move(hint));
}

void CheckLength(const SolverParameter& solver) {
  if (!solver.has_max_iter() && solver.max_epochs() == 0) {
    FailToStart(solver, "", "the solver says neither max_iter nor max_epochs",
                "give the number of iterations, max_iter: 10000");
  }
}

void CheckTests(const SolverParameter& solver, const SolverNets& nets) {
  if (static_cast<size_t>(solver.test_iter_size()) != nets.tests.size()) {
    FailToStart(solver, "test_iter",
                StrCat("test_iter must be given once a test net: ", nets.tests.size(), " nets and ",
                       solver.test_iter_size(), " test_iter"));
  }
}

// A test of test_iter batches of a database that ends.
void TellPartOfTest(int net, int64_t batches, const TestNet& test) {
  const int64_t records = test.feed().epoch_size();
  const int64_t batch = test.feed().batch_size();
  const int64_t taken = batches * batch;
  if (records <= 0 || taken == records || (taken > records && taken - records < batch)) return;
  LogWarning(StrCat("test net ", net, ": test_iter ", batches, " with batches of ", batch, " takes ", taken, " of ",
                    records, " records", taken > records ? ", some more than once" : "", "; test_iter ",
                    BatchesOfData(test.feed()), " takes them once"));
}

// Batch norms that normalise by statistics which are still those of no batch: what comes out is the bottom times 316.
void WarnOfUnmadeStatistics(const NetParameter& net, const std::vector<NetBlob>& blobs, const ParameterStore& store) {
  constexpr int kFactor = 2;  // the blob that counts batches
  for (const LayerParameter& layer : net.layer()) {
    if (!TraitsOf(layer).counts_batches || !layer.batch_norm_param().use_global_stats()) continue;
    const auto factor = std::ranges::find_if(
        blobs, [&](const NetBlob& blob) { return blob.layer == layer.name() && blob.index == kFactor; });
    if (factor == blobs.end() || factor->shape.Count() != 1 || store.Values(factor->name).at(0) != 0) continue;
    LogWarning(StrCat(PlaceOf(layer, "batch_norm_param.use_global_stats").ToString(), ": layer \"",
                      Printable(layer.name()),
                      "\" normalises by statistics that no training has made: give weights, or leave out "
                      "use_global_stats, which is false in training and true in tests"));
  }
}

uint64_t DrawSeed() {
  std::random_device device;
  return device() & 0x7FFFFFFFU;
}

// Losses, by their weight or their name, and errors.
bool IsSmallerBetter(const std::string& metric, const std::vector<BuiltNet::Output>& outputs) {
  const auto is_loss = [&](const BuiltNet::Output& output) { return output.name == metric && output.loss_weight > 0; };
  return std::ranges::any_of(outputs, is_loss) || FallsToItsTarget(metric);
}

Evaluation EvaluationOf(const SolverParameter& solver) {
  if (solver.eval_type() == "classification") return Evaluation::kMeans;
  if (solver.eval_type() == "detection") return Evaluation::kDetection;
  FailToStart(solver, "eval_type",
              StrCat("eval_type is classification or detection, and is \"", Printable(solver.eval_type()), "\""),
              DidYouMean(solver.eval_type(), {"classification", "detection"}));
}

PrecisionRule RuleOf(const SolverParameter& solver) {
  try {
    return PrecisionRuleNamed(solver.ap_version());
  } catch (const Error& error) {
    FailToStart(solver, "ap_version", error.text(), error.hint());
  }
}

// The weights a state names: where it says, as Caffe has it, or beside the state if the two were moved together.
fs::path LearnedNetOf(const CaffeState& state, const fs::path& path) {
  std::error_code code;
  const fs::path as_written = state.learned_net;
  if (fs::exists(as_written, code)) return as_written;
  fs::path beside = path.parent_path() / as_written.filename();
  if (fs::exists(beside, code)) return beside;
  throw Error(ErrorKind::kNoInput, SourcePlace{},
              StrCat(path.string(), ": its weights are ", Printable(state.learned_net),
                     ", which is neither there nor beside it"),
              "put the .caffemodel beside the .solverstate");
}

// Before the first iteration there is nothing to checkpoint: a request to stop ends the training as it is.
void StopIfAsked() {
  if (!SignalRequests::WantsStop()) return;
  SignalRequests::Take();
  throw Error(ErrorKind::kInterrupted, SourcePlace{}, "interrupted while the nets were built: no iteration was run",
              "the same command starts again");
}

}  // namespace

Trainer::Trainer(const SolverParameter& solver, const SolverNets& nets, TrainerOptions options)
    : solver_(solver), options_(std::move(options)), store_(options_.compile.device) {
  CheckLength(solver_);
  CheckOptimizer(solver_);
  RefuseBesideTurns(solver_, nets, processes(), options_.compile.compute);
  StartPipeline(nets.train);
  const Compute compute = PrecisionOf(solver_, nets.train, options_.compile.compute);
  if (compute == Compute::kAuto) {
    FailToStart(solver_, "precision", "precision auto is chosen by moka train; a program names float32 or bfloat16");
  }
  CheckDistributedWords(solver_);
  CheckCompressionNumbers(solver_);
  cold_ = StartCold(solver_, nets, options_);
  (void)EvaluationOf(solver_);
  (void)RuleOf(solver_);
  CheckTests(solver_, nets);
  if (solver_.snapshot_diff() && !solver_.has_snapshot_prefix()) {
    LogWarning("snapshot_diff: only snapshots in Caffe's formats have diffs, and those need a snapshot_prefix");
  }
  if (solver_.has_max_time()) {
    try {
      time_limit_s_ = ParseDuration(solver_.max_time());
    } catch (const Error& error) {
      FailToStart(solver_, "max_time", StrCat("max_time ", error.text()));
    }
  }
  if (options_.max_time_s) time_limit_s_ = *options_.max_time_s;
  if (options_.resume) {
    seed_ = options_.resume->trainer.seed;
  } else {
    seed_ = solver_.random_seed() >= 0 ? static_cast<uint64_t>(solver_.random_seed()) : DrawSeed();
  }
  if (processes() > 1)
    seed_ = WholeOfRank<uint64_t>(*options_.world, 0, options_.world->Broadcast(std::to_string(seed_)));
  LogToFile(StrCat("random_seed: ", seed_));
  state_.seed = seed_;
  if (solver_.max_epochs() == 0) {
    const QuietScope quiet;  // its warnings come with the turns' length
    CheckLrPolicy(solver_);
  }
  if (is_first()) WarnOfUnread(solver_, nets, compute);
  BuildNets(nets);
  if (is_first()) WarnOfUnread(solver_, nets, *turns_, options_.compile.recompute);
  ChooseMetrics();
  accuracy_ = AccuracyOf(solver_, best_metric_, *train_, tests_);
  const bool is_resumed = options_.resume.has_value();
  StartWeights();
  const bool goes_on = is_resumed || !options_.caffe_snapshot.empty();
  if (goes_on && state_.iteration >= max_iter_ && !state_.is_test_due) {
    throw Error(ErrorKind::kUsage, SourcePlace{},
                StrCat("this training is finished: ", state_.iteration, " of ", max_iter_, " iterations are done"),
                "to go on, give a larger max_iter");
  }
  resumed_at_ = is_resumed ? state_.iteration : -1;
  report_ = std::make_unique<TrainReport>(nullptr, resumed_at_);
  JoinRanks();
  if (options_.run != nullptr) SetRun(*options_.run);
}

void Trainer::SetRun(RunFolder& run) {
  options_.run = &run;
  for (const auto& test : tests_) test->SetOutputFolder(run.path() / "outputs");
  if (resumed_at_ >= 0) {
    if (last_checkpoint_.parent_path() == run.checkpoints())
      SetAsideNewer(run.checkpoints(), state_.iteration, state_.best_iteration);
    LogToFile(StrCat("Restoring previous solver status from ", last_checkpoint_.string()));
  }
  report_ = std::make_unique<TrainReport>(&run, resumed_at_, !state_.is_test_due);
}

// The other ranks of a training with MLPerf's log wait until the first has said in it that the run starts.
void Trainer::StartClock() {
  if (solver_.has_mlperf() && is_first() && options_.run == nullptr) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver_, "mlperf"),
                "MLPerf's log is written into a run's folder, and this training has none",
                "train with moka train, or leave out mlperf");
  }
  const bool is_new = resumed_at_ < 0;
  if (solver_.has_mlperf() && options_.run != nullptr) {
    MlperfRun::Course course{.facts = FactsOf(solver_, *train_, *tests_.at(0), ranks()),
                             .test_interval = solver_.test_interval(),
                             .max_iter = max_iter_};
    course.facts.seed = seed_;
    course.facts.batch = Batch();
    mlperf_ = is_new ? OpenMlperf(*options_.run, solver_, course, cold_) : ResumeMlperf(*options_.run, course, state_);
  }
  clock_.Start(state_.clock_s);
  if (is_new) mlperf_.Begin();
  if (solver_.has_mlperf() && processes() > 1) options_.world->Barrier();
}

void Trainer::BuildNets(const SolverNets& nets) {
  options_.compile.deterministic = solver_.deterministic();
  options_.compile.recompute = options_.compile.recompute || solver_.recompute();
  if (options_.take_signals && !options_.compile.on_pulse) options_.compile.on_pulse = StopIfAsked;
  PipelineOptions data;
  data.seed = seed_;
  data.threads = options_.data_threads;
  data.base_folder = options_.base_folder;
  data.record_checks = solver_.record_checks();
  data.phase = TRAIN;
  if (ranks() > 1) {
    data.rank = options_.world->rank();
    data.world = ranks();
  }
  Announce("building the train net");
  BuildTrainNet(nets, data);
  SetLength();
  for (size_t i = 0; i < nets.tests.size(); ++i) {
    Announce(nets.tests.size() == 1 ? std::string("building the test net") : StrCat("building test net ", i));
    BuildTestNet(static_cast<int>(i), nets, data);
  }
}

// How many iterations there are, once it is known what an epoch has.
void Trainer::SetLength() {
  if (solver_.max_epochs() > 0) {
    const int64_t records = train_->feed().epoch_size();
    const int64_t batch = Batch();
    if (records <= 0)
      FailToStart(solver_, "max_epochs", "max_epochs needs data with an end, and the train data has none");
    const int64_t iterations = CeilDiv(Size(records) * solver_.max_epochs(), batch).value();
    if (!solver_.has_max_iter() || iterations < solver_.max_iter()) {
      if (iterations > INT32_MAX) FailToStart(solver_, "max_epochs", StrCat(iterations, " iterations are too many"));
      solver_.set_max_iter(static_cast<int32_t>(iterations));
      LogInfo(StrCat(solver_.max_epochs(), " epochs are ", iterations, " iterations"));
    }
  }
  max_iter_ = solver_.max_iter();
  turns_->SetLength(solver_.max_iter());
}

void Trainer::BuildTestNet(int net, const SolverNets& nets, const PipelineOptions& data) {
  const NetParameter& param = nets.tests[static_cast<size_t>(net)];
  TestOptions options;
  options.name = StrCat("test", net);
  options.data = data;
  options.evaluation = EvaluationOf(solver_);
  const bool is_evaluated = options.evaluation == Evaluation::kDetection || GivesShares(param) ||
                            std::ranges::any_of(param.layer(), [](const LayerParameter& layer) {
                              return !TraitsOf(layer).gives_detections && HasEvaluator(layer.type());
                            });
  ShareTest(net, is_evaluated, options.data);
  options.compile = options_.compile;
  options.compile.compute = PrecisionOf(solver_, nets.train, options_.compile.compute);
  options.seed = seed_;
  options.use_means = solver_.ema_decay() > 0;
  options.precision_rule = RuleOf(solver_);
  options.watched = WatchedForSamples(solver_, net);
  const TestNet& test = *tests_.emplace_back(std::make_unique<TestNet>(param, options, store_));
  CheckSampleGrids(solver_, net, test);
  if (is_first() && TestsNet(solver_, net)) TellPartOfTest(net, solver_.test_iter(net), test);
  const std::vector<std::string> detections = test.DetectionOutputs();
  if (options.evaluation == Evaluation::kDetection && detections.empty()) {
    FailToStart(
        solver_, "eval_type",
        StrCat("eval_type is detection, and no output of test net ", net, " is the top of a DetectionEvaluate layer"));
  }
  if (options.evaluation == Evaluation::kMeans && !detections.empty()) {
    LogWarning(StrCat("\"", detections[0],
                      "\" is rows of a DetectionEvaluate layer, whose means say little; with eval_type: "
                      "\"detection\" it is their mean average precision"));
  }
}

// Chooses the metric that ranks tests, and checks that the names the solver gives exist.
void Trainer::ChooseMetrics() {
  const bool is_tested = !tests_.empty() && TestsNet(solver_, 0);
  const std::vector<std::string> names = is_tested ? tests_[0]->MetricNames() : std::vector<std::string>{};
  const auto check = [&](std::string_view field, const std::string& name) {
    if (std::ranges::find(names, name) != names.end()) return;
    std::string hint = DidYouMean(name, names);
    if (hint.empty() && names.empty()) hint = tests_.empty() ? "there is no test net" : "its test_iter is 0";
    if (hint.empty()) hint = StrCat("it has ", Join(names, ", "));
    FailToStart(solver_, field, StrCat(field, " \"", name, "\" is no output of the test net"), hint);
  };
  if (solver_.has_target_metric()) {
    check("target_metric", solver_.target_metric());
    if (!solver_.has_target_value())
      FailToStart(solver_, "target_metric", "target_metric needs target_value, which is not given");
    if (is_tested &&
        IsSmallerBetter(solver_.target_metric(), tests_[0]->outputs()) != FallsToItsTarget(solver_.target_metric())) {
      FailToStart(solver_, "target_metric",
                  "this output is a loss, and falls to its target only under a name with \"loss\" in it");
    }
  }
  if (solver_.has_best_metric()) {
    check("best_metric", solver_.best_metric());
    best_metric_ = solver_.best_metric();
  } else if (is_tested) {
    if (!tests_[0]->EvaluatedOutputs().empty()) best_metric_ = tests_[0]->EvaluatedOutputs()[0];
    for (const std::string& top : AccuracyTops(tests_[0]->param())) {
      if (best_metric_.empty() && std::ranges::find(names, top) != names.end()) best_metric_ = top;
    }
    for (const BuiltNet::Output& output : tests_[0]->outputs()) {
      if (best_metric_.empty() && output.loss_weight != 0) best_metric_ = output.name;
    }
  }
  if (is_tested) is_smaller_better_ = IsSmallerBetter(best_metric_, tests_[0]->outputs());
}

void Trainer::StartWeights() {
  if (options_.resume) {
    Restore(*options_.resume);
    options_.resume.reset();  // its copy of the weights is no longer needed
    return train_->states().TakeParts(store_);
  }
  SetWrittenBlobs(turns_->WholeNet(), turns_->blobs(), store_);
  for (const auto& test : tests_) SetWrittenBlobs(test->param(), test->blobs(), store_);
  for (const std::string& list : solver_.weights()) LoadWeightFiles(list, turns_->blobs(), store_);
  for (const std::string& list : options_.weights) LoadWeightFiles(list, turns_->blobs(), store_);
  if (!options_.from.empty()) LoadStart(options_.from, turns_->blobs(), store_);
  if (!options_.caffe_snapshot.empty()) RestoreCaffe(options_.caffe_snapshot);
  if (is_first()) WarnOfUnmadeStatistics(turns_->WholeNet(), turns_->blobs(), store_);
  train_->states().TakeParts(store_);
  StartMeans(*turns_, store_);
}

void Trainer::Restore(const Checkpoint& checkpoint) {
  CheckResume(checkpoint, GivenSolver(), turns_->WholeNet());
  const std::string file = checkpoint.path.string();
  LoadWeights(checkpoint.weights, file + ".safetensors", turns_->blobs(), store_);
  std::vector<std::string> missing = OwnSlots(*turns_);
  for (const auto& [name, tensor] : checkpoint.slots) {
    const std::optional<std::string> own = SetSlot(*turns_, name, tensor, store_);
    if (!own) {
      throw Error(ErrorKind::kBadData, StrCat(file, ".state: slot \"", name, "\" of shape ", tensor.shape.ToString(),
                                              " is not one of this net and solver"));
    }
    std::erase(missing, *own);
  }
  if (StartMeansOfStatistics(*turns_, missing, store_) && is_first())
    LogWarning(StrCat(file, ".state: running statistics have no means (ema_decay), which begin with the newest"));
  if (!missing.empty()) {
    throw Error(ErrorKind::kBadData, StrCat(file, ".state: slot \"", missing.front(), "\" is missing"));
  }
  if (GradientExchange* exchange = train_->exchange();
      exchange != nullptr && exchange->announced().compression() != nullptr) {
    RestoreStates(*exchange->announced().compression(), checkpoint.rank_states, *options_.world, file);
  } else if (!checkpoint.rank_states.empty() && is_first()) {
    LogWarning(StrCat(file, ".state: what ranks kept back for compression is left out, as this run has none"));
  }
  state_ = checkpoint.trainer;
  Seek(*turns_, state_.positions);
  last_checkpoint_ = checkpoint.path;
  if (!state_.is_test_due) last_checkpoint_iteration_ = state_.iteration;  // else it is written anew after the test
}

void Trainer::RestoreCaffe(const fs::path& path) {
  if (turns_->alternates()) {
    throw Error(ErrorKind::kUnavailable, PlaceOf(solver_, "turn"),
                StrCat(path.string(), ": a .solverstate is of one net, and this training has turns"),
                "start from weights, or resume from a checkpoint of Moka's");
  }
  const CaffeState state = ReadCaffeState(path);
  if (!state.learned_net.empty()) {
    LoadWeightFiles(LearnedNetOf(state, path).string(), train_->blobs(), store_);
  } else if (options_.weights.empty() && options_.from.empty() && solver_.weights().empty()) {
    LogWarning(StrCat(path.string(), " names no weights: they keep what their fillers gave"));
  }
  ParameterStore& slots = train_->states().StoreOfAllSlots(store_);
  HistoryToStore(solver_, train_->blobs(), state.history, slots);
  if (&slots != &store_) {
    for (const std::string& name : train_->states().AllSlots()) {
      (void)train_->states().SetSlot(name, {slots.type(name).shape, slots.Values(name)}, store_);
    }
  }
  state_.iteration = state.iteration;
  // Caffe goes on from the step it stored; here the step follows from the iteration. The last update before the
  // snapshot was of iteration - 1.
  const int64_t before = CaffeCurrentStep(solver_, state.iteration - 1);
  if (state.current_step != before && state.current_step != CaffeCurrentStep(solver_, state.iteration)) {
    LogWarning(StrCat(path.string(), ": current_step is ", state.current_step, " and this solver's at iteration ",
                      state.iteration, " is ", before, ": the solver's own is used"));
  }
  // Caffe keeps no data position; going on from where this many batches end is nearest to an unbroken run.
  const int64_t samples = state.iteration * Batch();
  std::map<std::string, int64_t> positions;
  train_->feed().SavePositions(positions);
  for (auto& [name, position] : positions) position = samples;
  train_->feed().Seek(positions);
  LogToFile(StrCat("Restoring previous solver status from ", path.string()));
}

void Trainer::WriteSnapshot(bool is_best) {
  if (last_checkpoint_iteration_ == state_.iteration) return;
  reporter_.SetPhase(RankReporter::Phase::kWriting);
  train_->states().Gather(store_);
  const Clock::time_point begin = Clock::now();
  CheckWeights();
  const ParameterStore& slots = train_->states().StoreOfAllSlots(store_);
  GradientCompression* compression =
      ranks() > 1 && train_->exchange() ? train_->exchange()->announced().compression() : nullptr;
  std::vector<RankMemory> rank_states;
  if (compression != nullptr) rank_states = GatherStates(*compression, *options_.world);
  if (!is_first()) {
    last_checkpoint_iteration_ = state_.iteration;
    return AwaitSnapshot();
  }
  if (options_.run == nullptr) {
    if (solver_.has_snapshot_prefix()) WriteCaffeSnapshot(slots);
    return AwaitSnapshot();
  }
  options_.run->CheckStanding();
  state_.positions.clear();
  SavePositions(*turns_, state_.positions);
  train_->states().SaveWaiting(store_);
  state_.clock_s = clock_.run_s();
  state_.waiting_ranks = train_->exchange() != nullptr && train_->exchange()->delays() != nullptr ? ranks() : 0;
  CheckpointContent content;
  content.weights = WeightsOf(turns_->blobs(), store_);
  content.trainer = state_;
  content.solver_text = SolverToText(GivenSolver());
  content.net_text = NetToText(turns_->WholeNet());
  content.store = &slots;
  content.slots = AllSlots(*turns_);
  content.rank_states = std::move(rank_states);
  const CheckpointPolicy policy{.keep_last = solver_.keep_last(), .keep_best = solver_.keep_best()};
  last_checkpoint_ = WriteCheckpoint(options_.run->checkpoints(), content, is_best, policy);
  last_checkpoint_iteration_ = state_.iteration;
  checkpoint_s_ = std::chrono::duration<double>(Clock::now() - begin).count();
  LogToFile(StrCat("Snapshotting to ", last_checkpoint_.string(), ".safetensors"));
  WriteStatus("running");  // first: on a full disk it is what remains
  report_->Plot();
  if (options_.observer != nullptr) options_.observer->OnCheckpoint(last_checkpoint_, is_best);
  // Behind the run's own, so that no iteration is lost where a prefix cannot be written any more.
  if (solver_.has_snapshot_prefix()) WriteCaffeSnapshot(slots);
  AwaitSnapshot();
}

// Caffe's diffs hold what its update subtracts; here it is the difference of the weights, rounded with them. Statistics
// and blobs that are not trained have none.
std::vector<std::vector<float>> Trainer::LastUpdate() const {
  std::vector<std::vector<float>> diffs;
  if (!solver_.snapshot_diff()) return diffs;
  std::set<std::string> trained;
  for (const NetBlob& blob : TrainedBlobs(train_->blobs())) trained.insert(blob.name);
  for (size_t i = 0; i < train_->blobs().size(); ++i) {
    const NetBlob& blob = train_->blobs()[i];
    const std::vector<float> now = store_.Values(blob.name);
    std::vector<float>& diff = diffs.emplace_back(now.size(), 0.0F);
    if (before_update_.empty() || !trained.contains(blob.name)) continue;  // no iteration yet, after a resume
    for (size_t k = 0; k < now.size(); ++k) diff[k] = before_update_[i].values[k] - now[k];
  }
  return diffs;
}

}  // namespace moka
