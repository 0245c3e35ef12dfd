// moka train: solver and nets in, a run folder out.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/transport/clocks.h"
#include "comm/transport/mpi_world.h"
#include "comm/transport/same_on_all.h"
#include "comm/transport/thread_ranks.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "core/file.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "core/trace.h"
#include "data/pipeline/open_pipeline.h"
#include "optim/run/trainer.h"
#include "optim/signals.h"
#include "optim/step/turn_scope.h"
#include "proto/nets/model_card.h"
#include "tools/cli/command_line.h"
#include "tools/cli/device_choice.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/cli/version.h"
#include "tools/faults/silence.h"
#include "tools/infer/tasks.h"
#include "tools/launch/command.h"
#include "tools/measure/trace_files.h"
#include "tools/report/training_report.h"
#include "tools/train/first_training.h"
#include "tools/train/process_ranks.h"
#include "tools/train/program_options.h"
#include "tools/train/rank_fields.h"
#include "tools/train/resumed_flags.h"
#include "tools/train/run_kernels.h"
#include "tools/train/scheduler_time.h"
#include "tools/train/shared_folder.h"
#include "tools/train/team_setup.h"
#include "tools/train/terminal_observer.h"
#include "tools/train/train_setup.h"
#include "tools/verbs/train.h"

namespace moka {
namespace {

// Once the first rank has ended with an error mpirun drops what others still say, so the one that speaks ends first.
constexpr std::chrono::milliseconds kLastWords(500);

SignalEffect EffectOf(const Arguments& arguments, const std::string& flag, const std::string& fallback) {
  const std::string text = arguments.Get(flag, fallback);
  if (text == "stop") return SignalEffect::kStop;
  if (text == "snapshot") return SignalEffect::kSnapshot;
  if (text == "none") return SignalEffect::kNone;
  throw Error(ErrorKind::kUsage, StrCat("--", flag, " wants stop, snapshot or none, found \"", Printable(text), "\""));
}

// `resumed_at`: the checkpoint's iteration; none where there was no checkpoint.
void LogStart(const TrainSetup& setup, const RunFolder& run, std::optional<int64_t> resumed_at) {
  SetLogFile(run.log());
  LogInfo(fmt::format("moka {} · {} · run {}", Version(), TeamText(), run.path().string()));
  LogToFile("Initializing solver from parameters:");
  for (const std::string& line : Split(SolverToText(setup.solver), '\n')) {
    if (!line.empty()) LogToFile(line);
  }
  if (resumed_at) {
    LogInfo(StrCat("resuming at iteration ", *resumed_at));
  } else if (run.is_resumed()) {
    LogInfo("resuming: no checkpoint was written yet, so it starts again at iteration 0");
  }
}

void LogNet(TrainNet& net, const std::string& turn) {
  int64_t parameters = 0;
  for (const NetBlob& blob : net.blobs()) {
    if (!blob.shared && blob.role != ParameterRole::kStatistic) parameters += blob.shape.Count();
  }
  const MemoryReport& memory = net.program().report().memory;
  LogInfo(fmt::format("net {}{}: {} layers, {} parameters, {} planned, batch {}, {} records", net.param().name(),
                      turn.empty() ? "" : StrCat(" of turn ", turn), net.param().layer_size(), parameters,
                      BytesText(memory.arena_bytes + memory.state_bytes), net.feed().batch_size(),
                      net.feed().epoch_size()));
}

// A line with the command that shows what the net has learned; none for a task without inference, a run without a
// checkpoint and a net that has learned from no file.
std::string HowToTry(const TrainSetup& setup, const RunFolder& run) {
  const InferTask* task = FindInferTask(ModelCardOf(run.path() / "config").task());
  const auto reads = [](const LayerParameter& layer) { return ReadsRecords(layer.type()); };
  const auto learns = [&](const NetParameter& net) { return std::ranges::any_of(net.layer(), reads); };
  if (task == nullptr || (!learns(setup.nets.train) && std::ranges::none_of(setup.nets.turns, learns))) return {};
  if (ListFiles(run.checkpoints(), ".safetensors").empty()) return {};
  return TryLine(*task, run.path().string());
}

int FinishTraining(const TrainResult& result, const TrainSetup& setup, const RunFolder& run) {
  LogToFile("Optimization Done.");
  std::string line = StrCat(Describe(result.end), " at iteration ", result.iteration);
  if (result.best)
    line += fmt::format(" · best {} {:.4f} @ {}", result.best_metric, *result.best, result.best_iteration);
  LogInfo(line);
  if (result.exit_code() == static_cast<int>(ErrorKind::kInterrupted)) {
    run.CheckResumable();
    LogInfo(StrCat("resume: moka ", ShellLine({"train", "--resume=" + run.path().string()})));
  } else {
    LogInfo(StrCat("  curves  ", (run.path() / "plots").string()));
    if (!setup.nets.tests.empty()) LogInfo(StrCat("  test    moka ", ShellLine({"test", run.path().string()})));
    if (const std::string how = HowToTry(setup, run); !how.empty()) LogInfo(how);
  }
  SetLogFile({});
  return result.exit_code();
}

// The parts of a training that this process reads once and its ranks share.
class Training {
 public:
  explicit Training(const Arguments& arguments) : setup_(ReadTrainSetup(arguments)) {
    if (arguments.Has("baseline")) baseline_ = ReadScalingBaseline(arguments.Get("baseline"));
  }
  // To be called before anything else; `ranks` are threads of this process.
  void KeepThreads(const Arguments& arguments, int ranks) { moka::KeepThreads(arguments, ranks, setup_); }
  // To be called before ranks take anything.
  void ShareAmong(int ranks) {
    takers_ = ranks;
    for (int rank = 0; rank < ranks; ++rank) lanes_.push_back(StrCat("program of rank ", rank));
  }
  const TrainSetup& setup() const { return setup_; }
  // Where its start-up began: before solver and nets were read.
  RunClock::Clock::time_point begun() const { return begun_; }
  const std::optional<ScalingBaseline>& baseline() const { return baseline_; }
  // Whether ranks are threads of this process.
  bool is_shared() const { return !lanes_.empty(); }
  const std::string& lane(int rank) const { return lanes_.at(static_cast<size_t>(rank)); }
  // Where the run lies, and how it was compiled; an empty path before it has begun, and on ranks beside the first.
  const TrainedRun& trained() const { return trained_; }
  void SetTrained(const std::filesystem::path& path, const CompileOptions& compile) {
    trained_.path = path;
    trained_.compile = compile;
  }
  // The checkpoint to go on from, once for each rank: the last one gets it without a copy.
  std::optional<Checkpoint> TakeResume() {
    const std::lock_guard lock(mutex_);
    return --takers_ > 0 ? setup_.resume : std::move(setup_.resume);
  }

 private:
  const RunClock::Clock::time_point begun_ = RunClock::Clock::now();
  TrainSetup setup_;
  std::optional<ScalingBaseline> baseline_;
  std::vector<std::string> lanes_;
  TrainedRun trained_;  // the first rank's alone to write
  std::mutex mutex_;
  int takers_ = 1;
};

// The run's folder for ranks beside the first, which alone makes it: those that are processes keep a log of their own
// there. `found`: what RequireSharedFolder gave; empty for threads.
void ShareRun(Communicator* world, const Training& training, const std::filesystem::path& found, const RunFolder* run,
              Trainer& trainer) {
  if (world == nullptr) return;
  const std::string path = world->Broadcast(run == nullptr ? std::string() : run->path().string());
  if (run != nullptr || found.empty()) return trainer.Watch(path);
  const bool is_run = !training.setup().run_folder.empty();  // that is resumed
  const std::filesystem::path own = is_run ? found : found / std::filesystem::path(path).filename();
  SetLogFile(own / StrCat("log.rank", world->rank(), ".txt"));
  trainer.Watch(own);
}

bool ExplainsComm(const Arguments& arguments) { return arguments.Get("explain") == "comm"; }

// Trains as long as it takes to know the times, and writes nothing.
int ExplainComm(const TrainSetup& setup, TrainerOptions options) {
  constexpr int kIterations = 60;
  if (options.world == nullptr) {
    throw Error(ErrorKind::kUsage, {}, "--explain=comm: one rank exchanges nothing",
                "start several: mpirun -np 4 moka train ... --explain=comm");
  }
  SolverParameter solver = setup.solver;
  solver.clear_snapshot_prefix();
  solver.set_snapshot(0);
  solver.clear_test_iter();
  solver.clear_target_metric();
  solver.clear_best_metric();
  solver.clear_mlperf();
  SolverNets nets = setup.nets;
  nets.tests.clear();
  options.stop_after = options.resume ? options.resume->trainer.iteration + kIterations : kIterations;
  const bool is_first = options.world->is_first();
  Trainer trainer(solver, nets, std::move(options));
  trainer.Run();
  if (!is_first) return 0;
  std::string text = "layers lie on several ranks, which send each other what lies between: there are no buckets\n";
  if (const Strategy* strategy = trainer.train_net().strategy(); strategy != nullptr) {
    text = StrCat(strategy->Describe(), "; gradients are not summed, so there are no buckets\n");
  }
  if (trainer.planner() != nullptr) text = trainer.planner()->Explain(*trainer.train_net().exchange());
  PrintLines(text);
  return 0;
}

// Training with a trace: of one rank, of a process that is one of several ranks, or of all ranks of this process.
TrainResult RunTraced(const Arguments& arguments, const Training& training, Communicator* world, Trainer& trainer) {
  if (!arguments.Has("trace")) return trainer.Run();
  if (training.is_shared()) {
    if (world->is_first()) BeginTrace(arguments);
    NameTraceLane(training.lane(world->rank()));
    world->Barrier();
    TrainResult result = trainer.Run();
    world->Barrier();
    if (world->is_first()) EndTrace(arguments);
    world->Barrier();  // the names of spans are the trainers'
    return result;
  }
  ClockOffset clock;
  if (world != nullptr) clock = MeasureClock(*world);
  BeginTrace(arguments);
  TrainResult result = trainer.Run();
  if (world == nullptr) {
    EndTrace(arguments);
  } else {
    StopTraceOfRank(arguments.Get("trace"), *world, clock);
  }
  return result;
}

// The seconds that the words give the training, or else the solver. A solver's text that is no time is told by the
// trainer, with its place.
std::optional<double> AskedTime(const Arguments& arguments, const SolverParameter& solver) {
  if (arguments.Has("max-time")) return ParseDuration(arguments.Get("max-time"));
  if (!solver.has_max_time()) return std::nullopt;
  try {
    return ParseDuration(solver.max_time());
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns what the words and the solver say of the training, but for where it begins and who watches it.
TrainerOptions TrainerOptionsOf(const Arguments& arguments, const Training& training, Communicator* world) {
  const TrainSetup& setup = training.setup();
  TrainerOptions options;
  options.compile = CompileOptionsOfRun(arguments, setup);
  options.compile.recompute = arguments.Has("recompute");
  options.compile.device = DeviceOf(arguments, &setup.solver, world == nullptr ? 0 : LocalRank(*world));
  options.weights = setup.weights;
  options.from = setup.from;
  options.caffe_snapshot = setup.caffe_snapshot;
  options.data_threads = arguments.Int("data-threads", 0, 0, 1024);
  options.max_time_s = AskedTime(arguments, setup.solver);
  options.baseline = training.baseline();
  options.begun = training.begun();
  return options;
}

// One rank, or the only one (no world). The first one's `run` is there from when it is locked or made, and outlives
// what the rank has open.
int TrainInRun(const Arguments& arguments, Training& training, Communicator* world, std::optional<RunFolder>& run) {
  const TrainSetup& setup = training.setup();
  const bool is_first = world == nullptr || world->is_first();
  const std::string ranks = RanksText(world == nullptr ? 1 : world->size(), training.is_shared());
  TrainerOptions options = TrainerOptionsOf(arguments, training, world);
  if (setup.solver.threads() > 0 && !arguments.Has("threads")) SetThreadCount(setup.solver.threads());
  arguments.RefuseUnread({"progress", "runs", "trace", "threads"});
  if (ExplainsComm(arguments)) {
    options.world = world;
    options.resume = training.TakeResume();
    return ExplainComm(setup, std::move(options));
  }
  if (LooksInside(arguments)) {
    options.looks_only = true;
    Trainer trainer(setup.solver, setup.nets, options);
    for (size_t i = 0; i < trainer.turns().size(); ++i) {
      LookInside(arguments, ProgramNameOf(trainer.turns().rule(i)), trainer.turns().net(i).program());
    }
    return 0;
  }
  options.max_time_s = SchedulerTimeLimit(options.max_time_s);
  const CompileOptions compile = options.compile;
  TerminalObserver observer(is_first ? ParseProgressMode(arguments.Get("progress", "auto")) : ProgressMode::kOff);
  if (is_first) options.observer = &observer;
  options.world = world;
  options.resume = training.TakeResume();
  if (options.resume) CheckResume(*options.resume, setup.solver, WholeTrainNet(setup.solver, setup.nets));
  std::optional<int64_t> resumed_at;
  if (options.resume) resumed_at = options.resume->trainer.iteration;
  if (std::optional<RunFolder> taken = is_first ? TakeRun(setup) : std::nullopt) run.emplace(std::move(*taken));
  // All is built before a folder is made or changed: a wrong configuration leaves a resumed run as it was, and of a new
  // one nothing.
  const auto trainer = std::make_unique<Trainer>(setup.solver, setup.nets, std::move(options));
  // The folder that the run's lies in, or the run's own that is resumed, as processes find it.
  std::filesystem::path found;
  if (world != nullptr && !training.is_shared()) {
    found = RequireSharedFolder(*world, setup.run_folder.empty() ? RunsFolder(arguments) : setup.run_folder);
  }
  if (is_first) {
    trainer->PrepareSnapshots();
    BeginRun(setup, arguments, ranks, run);
    LogStart(setup, *run, resumed_at);
    trainer->SetRun(*run);
  }
  ShareRun(world, training, found, run ? &*run : nullptr, *trainer);
  if (run) WriteRunKernels(*run, compile);
  if (run) training.SetTrained(run->path(), compile);
  for (size_t i = 0; is_first && i < trainer->turns().size(); ++i) {
    LogNet(trainer->turns().net(i), trainer->turns().rule(i).name());
  }
  const TrainResult result = RunTraced(arguments, training, world, *trainer);
  observer.Finish();
  return run ? FinishTraining(result, setup, *run) : result.exit_code();
}

// Writes the last status of a run where nobody has said how this session ended.
void EndStatus(const std::optional<RunFolder>& run, const std::string& why, int exit_code) {
  if (!run || !run->has_begun()) return;
  const std::optional<RunProgress> progress = ReadProgress(run->path());
  if (progress && progress->state != "starting" && progress->state != "running") return;
  RunStatus status = run->last_status();
  status.state = exit_code == static_cast<int>(ErrorKind::kInterrupted) ? "interrupted" : "failed";
  status.exit_code = exit_code;
  status.error = why;
  run->WriteLastStatus(status);
}

int TrainRank(const Arguments& arguments, Training& training, Communicator* world) {
  std::optional<RunFolder> run;
  try {
    return TrainInRun(arguments, training, world, run);
  } catch (const std::exception& error) {  // once the trainer has closed its files and given up its memory
    EndStatus(run, error.what(), ExitCodeOf(error));
    throw;
  }
}

// Every rank is a thread of this process with a team of its own.
int TrainInThreads(const Arguments& arguments, Training& training, const ProcessRanks& ranks) {
  const int threads = SetUpTeams(arguments, ranks.count);
  training.ShareAmong(ranks.count);
  std::vector<std::unique_ptr<Communicator>> world = MakeThreadRanks(ranks.count);
  for (std::unique_ptr<Communicator>& each : world) each = WithFault(std::move(each));
  int code = 0;
  RunRanks(world, [&](Communicator& own) {
    SetThreadCount(threads);
    std::optional<QuietScope> quiet;  // the first rank speaks
    if (!own.is_first()) quiet.emplace();
    const int ended = TrainRank(ArgumentsOfRank(arguments, ranks, own.rank()), training, &own);
    if (own.is_first()) code = ended;
  });
  return code;
}

int TrainOnce(const Arguments& arguments, Communicator* world, TrainedRun* trained) {
  const ProgressMode progress = ParseProgressMode(arguments.Get("progress", "auto"));
  const bool is_reported = !arguments.Has("no-report");
  const SignalRequests signals(EffectOf(arguments, "sigint_effect", "stop"),
                               EffectOf(arguments, "sighup_effect", "snapshot"));
  Training training(arguments);
  if (world != nullptr) {
    training.KeepThreads(arguments, 1);
    RequireSameFields(*world, FieldsOfSetup(training.setup()));
    (void)WithRanksOfRun(arguments, training.setup(), world->size());
    const int code = TrainRank(arguments, training, world);
    *trained = training.trained();
    trained->Set(training.setup().solver, is_reported, progress);
    return code;
  }
  const Arguments own = WithRanksOfRun(arguments, training.setup(), 0);
  const ProcessRanks ranks = RanksOfProcess(own, training.setup().solver);
  training.KeepThreads(arguments, ranks.count);
  const bool looks_inside = LooksInside(arguments) && !ExplainsComm(arguments);
  const int code = ranks.count > 1 && !looks_inside ? TrainInThreads(own, training, ranks)
                                                    : TrainRank(ArgumentsOfRank(own, ranks, 0), training, nullptr);
  *trained = training.trained();
  trained->Set(training.setup().solver, is_reported, progress);
  return code;
}

// The training, after the one that its solver wants before it. `trained`: the run that is left to be reported.
int Train(const Arguments& arguments, Communicator* world, TrainedRun* trained) {
  const std::optional<Arguments> first = FirstTrainingOf(arguments);
  if (!first) return TrainOnce(arguments, world, trained);
  if (world != nullptr) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("the solver wants ", first->Get("solver"), " trained before it, and ranks train one solver"),
                "train that one first, and give this training --from RUN@last");
  }
  const int code = TrainOnce(*first, nullptr, trained);
  const std::string last = StrCat(trained->path.string(), "@last");
  Arguments second = arguments;
  second.options["from"] = last;
  if (code == 0) return TrainOnce(second, nullptr, trained);  // a page of what is not ready would cost a whole test
  LogInfo(StrCat("then: --from ", last, " in place of this first training"));
  return code;
}

// A rank of a world that a launcher started: with its end the world is closed.
int TrainLaunched(const Arguments& arguments, TrainedRun* trained) {
  RefuseRanksOfProcess(arguments);
  const std::unique_ptr<Communicator> world = WithFault(OpenWorld({.program = StrCat("moka ", Version(), " train")}));
  if (world->size() == 1) return Train(arguments, nullptr, trained);
  if (!world->is_first()) SetStderrLevel(LogLevel::kError);
  try {
    RequireSameFields(*world, FieldsOfStart(arguments));
    const bool is_alone = LooksInside(arguments) && !ExplainsComm(arguments);
    return Train(arguments, is_alone ? nullptr : world.get(), trained);
  } catch (Error& error) {
    world->Fail(error.what());
    // If another rank's words came first, they need not be repeated.
    const std::string said = world->transport().failure();
    const bool is_own = world->is_first() || error.kind() != ErrorKind::kPeer ||
                        said.starts_with(StrCat(world->NameOf(world->rank()), ": "));
    if (is_own) {
      // A launcher may end the first rank before it has said whose error it is.
      if (!world->is_first()) error.AddNote(StrCat("on ", world->NameOf(world->rank())));
      throw;
    }
    LogToFile(StrCat("error: ", error.what()));
    std::this_thread::sleep_for(kLastWords);
    return static_cast<int>(ErrorKind::kPeer);
  } catch (const std::exception& error) {  // memory that is not there, say
    world->Fail(error.what());
    throw;
  }
}

int RunTrain(const Arguments& arguments) {
  RefuseInt8InTraining(arguments);
  TrainedRun trained;
  const int code = IsLaunched() ? TrainLaunched(arguments, &trained) : Train(arguments, nullptr, &trained);
  ReportTraining(trained, code);
  return code;
}

}  // namespace

Verb TrainVerb() {
  Verb verb;
  verb.name = "train";
  verb.summary = "train a net from a solver";
  verb.usage = "SOLVER|FOLDER [key=value ...] [--flags]";
  verb.examples = {"moka train models/lenet",
                   "moka train models/lenet base_lr=0.02 layer[ip1].inner_product_param.num_output=300"};
  verb.options = {
      {"solver", "FILE", ""},  // Caffe's spelling of SOLVER
      {"weights", "FILES", "start from .safetensors, .caffemodel or .h5"},
      {"snapshot", "FILE", "continue from Caffe's .solverstate or .solverstate.h5"},
      {"resume", "[RUN]", "continue a run: its folder or name, nothing (the newest unfinished), or auto"},
      {"from", "START", "a new run from RUN@WHICH (best, last, iter_N), a FILE or zoo:NAME; other heads start fresh"},
      {"run", "NAME", "name of the run (default: the solver's folder)"},
      {"runs", "FOLDER", "where runs lie (default runs); --allow-outputs DIR: where nets may write too"},
      {"iterations", "N", "the same as max_iter=N; --seed N: as random_seed=N"},
      {"seed", "N", ""},
      {"stage", "LIST", "stages of the net for include/exclude rules, as train_state { stage }; --level N"},
      {"level", "N", ""},
      {"max-time", "TIME", "checkpoint and stop after 90m, 1.5h or 01:30:00 (exit 75; or at Slurm's end)"},
      {"data-threads", "N", "decoding threads a data layer"},
      {"baseline", "RUN", "a run of one rank, or fewer, that the scaling report compares with"},
      {"progress", "MODE", "auto, bar, lines or off; --no-report: no test and report.html at the end"},
      {"no-report", "", ""},
      {"ranks", "N", "train data-parallel by N ranks, threads of this process (also --device=gpu:0,gpu:1)"},
      {"allow-outputs", "DIR", ""},
      {"sigint_effect", "EFFECT", "stop (default), snapshot or none; --sighup_effect: snapshot by default"},
      {"sighup_effect", "EFFECT", ""}};
  for (const OptionSpec& option : ProgramOptionSpecs()) verb.options.push_back(option);
  std::ranges::find(verb.options, "explain", &OptionSpec::name)->doc +=
      "; comm: how ranks exchange gradients, after 60 iterations";
  verb.run = RunTrain;
  verb.takes_fields = TakenFields::kOfSolver;
  return verb;
}

}  // namespace moka
