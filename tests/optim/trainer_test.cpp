// Whole trainings: they learn, repeat and resume to the bit, and leave what they should.
#include "optim/run/trainer.h"

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "optim/checkpoint/caffe_state.h"
#include "optim/signals.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

TEST_F(TrainerTest, LearnsTheTask) {
  const auto trainer = Make(BaseSolver() + "max_iter: 200");
  const TrainResult result = trainer->Run();
  EXPECT_EQ(result.end, TrainEnd::kFinished);
  EXPECT_EQ(result.iteration, 200);
  EXPECT_EQ(result.best_metric, "accuracy");
  EXPECT_GT(result.best.value_or(0), 0.97);
  EXPECT_LT(result.loss, 0.4);
}

TEST_F(TrainerTest, ALossOfAnyNameIsBestWhenSmallest) {
  std::string net = TaskNet(16);
  net = net.substr(0, net.find("layer { name: \"accuracy\""));
  for (size_t at = net.find("\"loss\""); at != std::string::npos; at = net.find("\"loss\""))
    net.replace(at, 6, "\"cost\"");
  const TrainResult result = Make(BaseSolver(), {}, Nets(1, net))->Run();
  EXPECT_EQ(result.best_metric, "cost");
  EXPECT_LT(result.best.value_or(9), 0.7);  // below the first test's, which guesses: log(4)
}

TEST_F(TrainerTest, OneSeedIsOneResult) {
  const auto values = [](const std::string& solver) {
    const auto trainer = Make(solver);
    trainer->Run();
    return Everything(*trainer);
  };
  const auto first = values(BaseSolver());
  EXPECT_EQ(first, values(BaseSolver()));
  EXPECT_NE(first, values(BaseSolver() + "random_seed: 4"));
}

class ResumeBitTest : public TrainerTest, public testing::WithParamInterface<const char*> {};

TEST_P(ResumeBitTest, AResumedRunEndsBitIdentical) {
  const std::string solver = BaseSolver() + GetParam();
  const auto whole = Make(solver);
  whole->Run();
  for (const int64_t stop : {1, 7, 10, 29}) {
    RunFolder run = NewRun();
    TrainerOptions options;
    options.run = &run;
    options.stop_after = stop;
    const TrainResult stopped = Make(solver, options)->Run();
    ASSERT_EQ(stopped.end, TrainEnd::kInterrupted);
    ASSERT_EQ(stopped.exit_code(), 75);
    TrainerOptions again;
    again.run = &run;
    again.resume = FindNewestValid(run.checkpoints());
    ASSERT_TRUE(again.resume.has_value());
    ASSERT_EQ(again.resume->trainer.iteration, stop);
    const auto resumed = Make(solver, again);
    const TrainResult result = resumed->Run();
    EXPECT_EQ(result.iteration, 30);
    EXPECT_EQ(Everything(*resumed), Everything(*whole)) << stop;
    EXPECT_EQ(resumed->state().loss_window, whole->state().loss_window);
    EXPECT_EQ(resumed->state().smoothed_loss, whole->state().smoothed_loss);
    EXPECT_EQ(resumed->state().best, whole->state().best);
    EXPECT_EQ(resumed->state().best_iteration, whole->state().best_iteration);
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, ResumeBitTest,
                         testing::Values("", "type: \"Nesterov\" iter_size: 2",
                                         "type: \"Adam\" ema_decay: 0.9 base_lr: 0.01",
                                         "type: \"LAMB\" base_lr: 0.01 lr_policy: \"cosine\" warmup_iter: 5",
                                         "type: \"LARS\" clip_gradients: 1 iter_size: 3",
                                         "type: \"AdaDelta\" delta: 1e-6 base_lr: 1"));

TEST_F(TrainerTest, MicroBatchesAddUpToOneBatch) {
  const std::string solver = "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 max_iter: 10 random_seed: 3 ";
  const std::string text = Without(TaskNet(16, false), "bn", "relu");
  std::string half = text;
  half.replace(half.find("batch_size: 16"), 14, "batch_size: 8");
  const auto whole = Make(solver, {}, Nets(0, text));
  whole->Run();
  const auto halves = Make(solver + "iter_size: 2", {}, Nets(0, half));
  halves->Run();
  const std::vector<float> a = whole->store().Values("ip1/0");
  const std::vector<float> b = halves->store().Values("ip1/0");
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5) << i;
}

TEST_F(TrainerTest, TheLogIsCaffes) {
  SetLogFile(At("log.txt"));
  Make(BaseSolver() + "max_iter: 20")->Run();
  SetLogFile({});
  const std::string log = ReadFile(At("log.txt"));
  EXPECT_THAT(log, testing::ContainsRegex("Solving task"));
  EXPECT_THAT(log, testing::ContainsRegex("Iteration 0, Testing net \\(#0\\)"));
  EXPECT_THAT(log, testing::ContainsRegex("    Test net output #0: accuracy = [0-9.]+\n"));
  EXPECT_THAT(log, testing::ContainsRegex("    Test net output #1: loss = [0-9.]+ \\(\\* 1 = [0-9.]+ loss\\)"));
  EXPECT_THAT(log, testing::ContainsRegex("Iteration 5 \\([0-9.e+]+ iter/s, [0-9.e-]+s/5 iters\\), loss = [0-9.]+"));
  EXPECT_THAT(log, testing::ContainsRegex("    Train net output #0: loss = [0-9.]+ \\(\\* 1 = [0-9.]+ loss\\)"));
  EXPECT_THAT(log, testing::ContainsRegex("Iteration 15, lr = 0.1"));
  EXPECT_THAT(log, testing::ContainsRegex("Optimization Done."));
}

TEST_F(TrainerTest, TheRunFolderHoldsEverything) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  Make(BaseSolver() + "snapshot: 10", options)->Run();
  for (const char* file :
       {"status.json", "metrics.jsonl", "results.csv", "plots/loss.svg", "plots/loss.csv", "plots/accuracy.svg",
        "plots/lr.svg", "checkpoints/last", "checkpoints/best", "checkpoints/iter_0000030.sha256"}) {
    EXPECT_TRUE(fs::exists(run.path() / file)) << file;
  }
  const auto status = nlohmann::json::parse(ReadFile(run.path() / "status.json"));
  EXPECT_EQ(status.at("state"), "finished");
  EXPECT_EQ(status.at("iter"), 30);
  EXPECT_EQ(status.at("exit_code"), 0);
  EXPECT_EQ(status.at("last_checkpoint"), "checkpoints/iter_0000030");
  int tests = 0;
  for (const MetricLine& line : ReadMetrics(run.path())) tests += line.split == "test" ? 1 : 0;
  EXPECT_EQ(tests, 4);  // at 0, 10, 20, 30
}

TEST_F(TrainerTest, DivergenceNamesALayerAndKeepsTheCheckpoint) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  std::string net = TaskNet(16, false);
  const auto trainer = Make(
      "base_lr: 1e30 lr_policy: \"step\" gamma: 1 stepsize: 100 max_iter: 50 random_seed: 3 "
      "warmup_iter: 3 snapshot: 1",
      options, Nets(0, net));
  const Caught caught = ErrorOf([&] { trainer->Run(); });
  EXPECT_EQ(caught.kind, ErrorKind::kDiverged);
  EXPECT_THAT(caught.text, testing::HasSubstr("layer \""));
  const auto status = nlohmann::json::parse(ReadFile(run.path() / "status.json"));
  EXPECT_EQ(status.at("state"), "diverged");
  EXPECT_EQ(status.at("exit_code"), 20);
  const std::optional<Checkpoint> kept = FindNewestValid(run.checkpoints());
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->weights.non_finite, 0);
}

TEST_F(TrainerTest, IgnoredNonFiniteLossesSkipTheUpdate) {
  const std::string solver =
      "base_lr: 0.1 lr_policy: \"fixed\" momentum: 0.9 max_iter: 12 random_seed: 3 on_nan: IGNORE ";
  // BatchNorm and ReLU are left out, as ReLU turns a NaN into 0, the NaN reaches the loss.
  const std::string net = Without(Without(TaskNet(16, false), "bn", "relu"), "relu", "ip2");
  for (const char* iter_size : {"", "iter_size: 2"}) {
    const auto trainer = Make(solver + iter_size, {}, Nets(0, net));
    FillTask(trainer->train_net().feed(), 20);  // in the second batch of four
    trainer->Run();
    EXPECT_EQ(trainer->state().skipped_updates, std::string_view(iter_size).empty() ? 3 : 6);
    for (const auto& [name, values] : Everything(*trainer)) {
      for (const float v : values) ASSERT_TRUE(std::isfinite(v)) << name;
    }
  }
}

TEST_F(TrainerTest, WeightsThatBecomeNanBehindAReluAreFound) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  const auto trainer = Make(BaseSolver(), options, Nets(1, Without(TaskNet(16, false), "bn", "relu")));
  FillTask(trainer->train_net().feed(), 20);
  const Caught caught = ErrorOf([&] { trainer->Run(); });
  EXPECT_EQ(caught.kind, ErrorKind::kDiverged);
  EXPECT_FALSE(FindNewestValid(run.checkpoints()).has_value());
}

TEST_F(TrainerTest, StopsEarlyWhenTestsStopImproving) {
  const auto trainer = Make(BaseSolver() + "base_lr: 0 test_interval: 2 early_stop_patience: 3");
  const TrainResult result = trainer->Run();
  EXPECT_EQ(result.end, TrainEnd::kStoppedEarly);
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_LT(result.iteration, 30);
}

// Sends a signal at an iteration and counts checkpoints.
class SignallingObserver : public TrainObserver {
 public:
  SignallingObserver(int signal, int64_t at) : signal_(signal), at_(at) {}
  void OnIteration(const TrainProgress& progress) override {
    if (progress.iteration == at_) raise(signal_);
  }
  void OnCheckpoint(const fs::path& path, bool) override { checkpoints.push_back(path.filename()); }
  std::vector<std::string> checkpoints;

 private:
  int signal_;
  int64_t at_;
};

TEST_F(TrainerTest, SigtermMakesACheckpointAndStops) {
  const SignalRequests requests;
  RunFolder run = NewRun();
  SignallingObserver observer(SIGTERM, 13);
  TrainerOptions options;
  options.run = &run;
  options.observer = &observer;
  const TrainResult result = Make(BaseSolver() + "keep_best: false", options)->Run();
  EXPECT_EQ(result.end, TrainEnd::kInterrupted);
  EXPECT_EQ(result.iteration, 13);
  EXPECT_EQ(observer.checkpoints, std::vector<std::string>{"iter_0000013"});
  EXPECT_EQ(nlohmann::json::parse(ReadFile(run.path() / "status.json")).at("state"), "interrupted");
}

// Sends SIGTERM as a phase with this name begins.
class PhaseSignal : public TrainObserver {
 public:
  explicit PhaseSignal(std::string_view phase) : phase_(phase) {}
  void OnPhase(std::string_view phase) override {
    if (phase == phase_) raise(SIGTERM);
  }

 private:
  std::string phase_;
};

TEST_F(TrainerTest, SigtermWhileANetIsBuiltEndsTheTrainingThere) {
  for (const char* phase : {"building the train net", "building the test net"}) {
    const SignalRequests requests;
    PhaseSignal observer(phase);
    TrainerOptions options;
    options.observer = &observer;
    try {
      Make(BaseSolver(), options);
      ADD_FAILURE() << phase << ": the training goes on";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInterrupted) << error.text();
    }
    EXPECT_EQ(SignalRequests::Take(), SignalEffect::kNone) << "the request is answered";
    raise(SIGTERM);
    options.observer = nullptr;
    options.take_signals = false;
    EXPECT_NO_THROW(Make(BaseSolver(), options)) << "nobody asks for signals";
  }
}

TEST_F(TrainerTest, SighupMakesACheckpointAndGoesOn) {
  const SignalRequests requests;
  RunFolder run = NewRun();
  SignallingObserver observer(SIGHUP, 13);
  TrainerOptions options;
  options.run = &run;
  options.observer = &observer;
  const TrainResult result = Make(BaseSolver() + "keep_best: false", options)->Run();
  EXPECT_EQ(result.end, TrainEnd::kFinished);
  EXPECT_EQ(observer.checkpoints, (std::vector<std::string>{"iter_0000013", "iter_0000030"}));
}

TEST_F(TrainerTest, TimeUpIsAnInterruption) {
  TrainerOptions options;
  options.max_time_s = 0.2;
  const TrainResult result = Make(BaseSolver() + "max_iter: 100000000", options)->Run();
  EXPECT_EQ(result.end, TrainEnd::kTimeUp);
  EXPECT_EQ(result.exit_code(), 75);
}

TEST_F(TrainerTest, SeveralTestNetsAreTestedInTurn) {
  SetLogFile(At("log.txt"));
  Make(BaseSolver() + "test_iter: 2 max_iter: 10", {}, Nets(2))->Run();
  SetLogFile({});
  EXPECT_THAT(ReadFile(At("log.txt")), testing::ContainsRegex("Iteration 10, Testing net \\(#1\\)"));
}

TEST_F(TrainerTest, EpochsBecomeIterations) {
  const std::string solver = "base_lr: 0.1 lr_policy: \"cosine\" max_epochs: 3 random_seed: 1 momentum: 0.9";
  // MemoryData has no end until it is filled, so max_epochs cannot be used with it.
  EXPECT_THAT(ErrorOf([&] { Make(solver, {}, Nets(0)); }).text, testing::HasSubstr("needs data with an end"));
}

// Every solver of Caffe's, through both formats; the files may have been moved together.
TEST_F(TrainerTest, CaffeSnapshotsContinueTheRun) {
  const std::string task =
      "base_lr: 0.01 lr_policy: \"multistep\" stepvalue: 5 stepvalue: 15 gamma: 0.5 "
      "weight_decay: 0.001 max_iter: 20 random_seed: 3 ";
  const std::vector<std::string> types = {"type: \"SGD\" momentum: 0.9",
                                          "type: \"Nesterov\" momentum: 0.9",
                                          "type: \"AdaGrad\"",
                                          "type: \"RMSProp\" rms_decay: 0.9",
                                          "type: \"AdaDelta\" momentum: 0.95 delta: 1e-6",
                                          "type: \"Adam\" momentum: 0.9 momentum2: 0.99"};
  for (const std::string& type : types) {
    for (const std::string ending : {"", ".h5"}) {
      const std::string solver = StrCat(task, type, ending.empty() ? "" : " snapshot_format: HDF5");
      const std::string prefix = At("snap").string();
      const auto whole = Make(StrCat(solver, " snapshot: 12 snapshot_prefix: \"", prefix, "\""), {}, Nets(0));
      whole->Run();
      ASSERT_TRUE(fs::exists(prefix + "_iter_20.solverstate" + ending));
      fs::create_directories(At("moved"));
      for (const std::string kind : {".caffemodel", ".solverstate"}) {
        const std::string name = StrCat("snap_iter_12", kind, ending);
        fs::rename(At(name), At("moved/" + name));
      }
      TrainerOptions options;
      options.caffe_snapshot = At("moved/snap_iter_12.solverstate" + ending);
      const auto resumed = Make(solver, options, Nets(0));
      EXPECT_EQ(resumed->state().iteration, 12);
      resumed->Run();
      EXPECT_EQ(Everything(*resumed), Everything(*whole)) << type << ending;
    }
  }
}

TEST_F(TrainerTest, SnapshotsOfMokasOwnSolversAreWeightsOnly) {
  const std::string prefix = At("snap").string();
  Make(StrCat("base_lr: 0.01 lr_policy: \"fixed\" max_iter: 2 random_seed: 3 type: \"AdamW\" momentum: 0.9 "
              "snapshot_prefix: \"",
              prefix, "\""),
       {}, Nets(0))
      ->Run();
  EXPECT_TRUE(fs::exists(prefix + "_iter_2.caffemodel"));
  EXPECT_FALSE(fs::exists(prefix + "_iter_2.solverstate"));
}

TEST_F(TrainerTest, AStateWithoutItsWeightsIsNamed) {
  WriteCaffeState(At("x.solverstate"), {.iteration = 3, .learned_net = "gone/x.caffemodel"});
  TrainerOptions options;
  options.caffe_snapshot = At("x.solverstate");
  const Caught caught = ErrorOf([&] { Make(BaseSolver(), options); });
  EXPECT_EQ(caught.kind, ErrorKind::kNoInput);
  EXPECT_THAT(caught.text, testing::HasSubstr("its weights are gone/x.caffemodel, which is neither there nor beside"));
}

// A run's checkpoint exports the same as a snapshot of that iteration holds.
TEST_F(TrainerTest, ACheckpointExportsCaffesState) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  const std::string prefix = At("snap").string();
  Make(BaseSolver() + StrCat("snapshot: 10 snapshot_prefix: \"", prefix, "\" "), options)->Run();
  const std::string learned = prefix + "_iter_10.caffemodel";
  const CaffeState state = CaffeStateOf(LoadCheckpoint(run.checkpoints() / "iter_0000010"), learned);
  WriteCaffeState(At("exported.solverstate"), state);
  EXPECT_EQ(ReadFile(At("exported.solverstate")), ReadFile(prefix + "_iter_10.solverstate"));
}

TEST_F(TrainerTest, WeightsOfAFileAreWhereTrainingStarts) {
  const auto first = Make(BaseSolver() + "max_iter: 5");
  first->Run();
  WriteSafetensors(At("w.safetensors"), WeightsOf(first->train_net().blobs(), first->store()));
  TrainerOptions options;
  options.weights = {At("w.safetensors").string()};
  const auto second = Make(BaseSolver() + "random_seed: 99", options);
  EXPECT_EQ(second->store().Values("ip1/0"), first->store().Values("ip1/0"));
}

TEST_F(TrainerTest, MistakesAreNamedBeforeAnythingRuns) {
  const auto error = [](const std::string& solver, const SolverNets& nets = Nets()) {
    const Caught caught = ErrorOf([&] { Make(solver, {}, nets); });
    EXPECT_EQ(caught.kind, ErrorKind::kConfig) << caught.text;
    return caught.text;
  };
  const std::string base = BaseSolver();
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"fixed\" test_iter: 1"),
              testing::HasSubstr("neither max_iter nor max_epochs"));
  EXPECT_THAT(error(base + "test_iter: 3"), testing::HasSubstr("1 nets and 2 test_iter"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"fixed\" max_iter: 1 test_iter: -1"),
              testing::HasSubstr("test_iter must be at least 0"));
  EXPECT_THAT(error(base + "max_iter: -1"), testing::HasSubstr("max_iter must be at least 0, and is -1"));
  EXPECT_THAT(error(base + "best_metric: \"accurcy\""), testing::HasSubstr("did you mean \"accuracy\"?"));
  EXPECT_THAT(error(base + "target_metric: \"accuracy\""), testing::HasSubstr("needs target_value"));
  EXPECT_THAT(error(base + "type: \"Adamm\""), testing::HasSubstr("unknown solver type"));
  EXPECT_THAT(error(base + "lr_policy: \"fixd\""), testing::HasSubstr("unknown lr_policy"));
  const std::string no_loss = Without(TaskNet(16), "loss", "accuracy");
  EXPECT_THAT(error(base, Nets(1, no_loss)), testing::HasSubstr("has no loss"));
}

TEST_F(TrainerTest, AFinishedRunRefusesToGoOn) {
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  Make(BaseSolver(), options)->Run();
  TrainerOptions again;
  again.resume = FindNewestValid(run.checkpoints());
  const Caught caught = ErrorOf([&] { Make(BaseSolver(), again); });
  EXPECT_EQ(caught.kind, ErrorKind::kUsage);
  EXPECT_THAT(caught.text, testing::HasSubstr("30 of 30 iterations are done"));
  EXPECT_EQ(Make(BaseSolver() + "max_iter: 35", again)->Run().iteration, 35);
}

// Units of convolution, batch norm and ReLU over the task's six features.
std::string UnitsNet() {
  std::string units;
  for (int i = 0; i < 6; ++i) {
    units += StrCat("layer { name: \"c", i, "\" type: \"Convolution\" bottom: \"", i == 0 ? "data" : "x",
                    "\" top: \"x\" convolution_param { num_output: 32 kernel_size: 1 bias_term: false "
                    "weight_filler { type: \"xavier\" } } }\n"
                    "layer { name: \"n",
                    i,
                    "\" type: \"BatchNorm\" bottom: \"x\" top: \"x\" }\n"
                    "layer { name: \"r",
                    i, "\" type: \"ReLU\" bottom: \"x\" top: \"x\" }\n");
  }
  std::string text = Without(TaskNet(kSamples, false), "ip1", "ip2");
  const std::string head = "layer { name: \"ip2\" type: \"InnerProduct\" bottom: \"ip1\"";
  return text.replace(text.find(head), head.size(),
                      units + "layer { name: \"ip2\" type: \"InnerProduct\" bottom: \"x\"");
}

TEST_F(TrainerTest, RecomputeOfTheSolverKeepsLessAndGivesTheSameBits) {
  const SolverNets nets = Nets(1, UnitsNet());
  const auto kept = Make(BaseSolver(), {}, nets);
  const auto again = Make(BaseSolver() + "recompute: true", {}, nets);
  const auto flagged = [&] {
    TrainerOptions options;
    options.compile.recompute = true;
    return Make(BaseSolver() + "recompute: false", options, nets);
  }();
  const int64_t arena = again->train_net().program().report().memory.arena_bytes;
  EXPECT_LT(arena, kept->train_net().program().report().memory.arena_bytes);
  EXPECT_EQ(arena, flagged->train_net().program().report().memory.arena_bytes);
  kept->Run();
  again->Run();
  EXPECT_EQ(Everything(*again), Everything(*kept));
}

TEST_F(TrainerTest, ARunMayGoOnWithOrWithoutRecompute) {
  const SolverNets nets = Nets(1, UnitsNet());
  RunFolder run = NewRun();
  TrainerOptions options;
  options.run = &run;
  options.stop_after = 7;
  Make(BaseSolver(), options, nets)->Run();
  TrainerOptions again;
  again.resume = FindNewestValid(run.checkpoints());
  const auto resumed = Make(BaseSolver() + "recompute: true", again, nets);
  resumed->Run();
  const auto whole = Make(BaseSolver(), {}, nets);
  whole->Run();
  EXPECT_EQ(Everything(*resumed), Everything(*whole));
}

}  // namespace
}  // namespace moka
