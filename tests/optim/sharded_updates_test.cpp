// Updates shared out among the ranks, with the weights on their way to all of them while the next forward pass goes on:
// bit for bit what every rank computes for itself, whoever reads weights between two steps, and failures meanwhile.
#include <atomic>

#include "data/pipeline/memory_pipeline.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

const std::string kSharded = " distributed { shard_updates: true }";

// Collects the results of a rank's tests, and the iterations that they followed.
struct Tests : TrainObserver {
  void OnTest(const TestReport& report) override {
    for (const OutputValue& output : report.outputs) values.emplace_back(report.iteration, output.value);
  }
  std::vector<std::pair<int64_t, double>> values;
};

class ShardedUpdatesTest : public RanksTest {
 protected:
  struct Run {
    std::vector<Result> results;
    std::vector<Tests> tests;  // by rank
  };
  static Run TrainWatched(int ranks, const std::string& solver, const SolverNets& nets,
                          const std::function<void(int, TrainerOptions&)>& prepare = {},
                          const std::function<void(int, Trainer&)>& before = {}) {
    Run run{.results = {}, .tests = std::vector<Tests>(static_cast<size_t>(ranks))};
    run.results = Train(
        ranks, solver, nets,
        [&](int rank, TrainerOptions& options) {
          options.observer = &run.tests[static_cast<size_t>(rank)];
          if (prepare) prepare(rank, options);
        },
        before);
    return run;
  }
  // Every rank's weights, statistics and slots, losses and tests are those of plain training.
  static void ExpectSame(const Run& sharded, const Run& plain, const std::string& what) {
    for (size_t r = 0; r < sharded.results.size(); ++r) {
      const Result& result = sharded.results[r];
      for (const auto& [name, values] : result.values) {
        EXPECT_EQ(values, plain.results[0].values.at(name)) << what << ", " << name << " of rank " << r;
      }
      EXPECT_EQ(result.state.loss_window, plain.results[0].state.loss_window) << what;
      EXPECT_EQ(result.state.skipped_updates, plain.results[0].state.skipped_updates) << what;
      EXPECT_EQ(sharded.tests[r].values, plain.tests[0].values) << what << ", tests of rank " << r;
    }
  }
};

TEST_F(ShardedUpdatesTest, WeightsAreWaitedForWhereTheyAreReadFirst) {
  Train(2, BaseSolver() + "max_iter: 1" + kSharded, Plain(), {}, [](int, Trainer& trainer) {
    const auto& steps = trainer.train_net().program().steps();
    std::string order;
    for (const StepReport& step : steps) order += StrCat(step.op, " ", step.layer, " ", step.pass, "\n");
    const auto place = [&](const std::string& op, const std::string& layer) {
      return std::ranges::find_if(steps, [&](const StepReport& s) { return s.op == op && s.layer == layer; }) -
             steps.begin();
    };
    const auto forward = [&](const std::string& layer) {
      return std::ranges::find_if(steps,
                                  [&](const StepReport& s) {
                                    return s.op == "matmul" && s.layer.starts_with(layer) && s.pass.empty();
                                  }) -
             steps.begin();
    };
    const auto last = [&](const std::string& op) {
      const auto it = std::ranges::find(steps.rbegin(), steps.rend(), op, &StepReport::op);
      return steps.rend() - it - 1;
    };
    ASSERT_LT(forward("ip2"), std::ssize(steps)) << order;
    EXPECT_LT(place("all_gather_end", "ip1"), forward("ip1")) << order;
    EXPECT_GT(place("all_gather_end", "ip2"), forward("ip1")) << "the first layer does not wait for the second\n"
                                                              << order;
    EXPECT_LT(place("all_gather_end", "ip2"), forward("ip2")) << order;
    EXPECT_GT(place("all_gather_begin", "ip1"), last("matmul")) << order;
    EXPECT_LT(place("all_gather_begin", "ip1"), place("all_gather_begin", "ip2"))
        << "they go in the order in which the next forward pass reads them\n"
        << order;
    const auto count = [&](const std::string& op) { return std::ranges::count(steps, op, &StepReport::op); };
    EXPECT_EQ(count("all_gather_begin"), 4) << order;
    EXPECT_EQ(count("all_gather_end"), 4) << order;
    const auto awaited = std::ranges::find(steps, "all_gather_end", &StepReport::op);
    EXPECT_EQ(awaited->kernel, "moka") << "an alias that waits";
  });
}

// Tests, checkpoints, what is displayed and the end read weights that have come.
TEST_F(ShardedUpdatesTest, WhoeverReadsWeightsReadsGatheredOnes) {
  for (const char* more : {"display: 1 test_interval: 1", "display: 0 test_interval: 7 test_initialization: false"}) {
    for (const int ranks : {2, 4}) {
      const std::string solver = BaseSolver() + more;
      ExpectSame(TrainWatched(ranks, solver + kSharded, Nets()), TrainWatched(ranks, solver, Nets()), more);
    }
  }
}

TEST_F(ShardedUpdatesTest, CheckpointsHaveGatheredWeights) {
  const std::string solver =
      BaseSolver() + "snapshot: 1 keep_last: 40 test_interval: 0 max_iter: 12 type: \"Adam\" base_lr: 0.01 ";
  RunFolder plain = NewRun("plain");
  RunFolder sharded = NewRun("sharded");
  const auto into = [](RunFolder& run) {
    return [&run](int rank, TrainerOptions& options) {
      if (rank == 0) options.run = &run;
    };
  };
  Train(4, solver, Nets(), into(plain));
  Train(4, solver + kSharded, Nets(), into(sharded));
  for (int i = 1; i <= 12; ++i) {
    const std::string name = StrCat("iter_00000", i < 10 ? "0" : "", i);
    const Checkpoint expected = LoadCheckpoint(plain.checkpoints() / name);
    const Checkpoint found = LoadCheckpoint(sharded.checkpoints() / name);
    ASSERT_EQ(found.weights.blobs.size(), expected.weights.blobs.size());
    for (size_t k = 0; k < found.weights.blobs.size(); ++k) {
      EXPECT_EQ(found.weights.blobs[k].values, expected.weights.blobs[k].values) << expected.weights.blobs[k].layer;
    }
    ASSERT_EQ(found.slots.size(), expected.slots.size());
    for (const auto& [slot, tensor] : expected.slots) {
      const auto it = std::ranges::find(found.slots, slot, [](const auto& one) { return one.first; });
      ASSERT_NE(it, found.slots.end()) << slot;
      EXPECT_EQ(it->second.values, tensor.values) << slot;
    }
  }
}

TEST_F(ShardedUpdatesTest, NormsOfLarsAndLambAreThoseOfWholeBlobsInEveryIteration) {
  for (const char* type : {"LARS", "LAMB", "Nesterov", "Adam"}) {
    const std::string solver = BaseSolver() + "base_lr: 0.01 test_interval: 1 type: \"" + type + "\"";
    ExpectSame(TrainWatched(4, solver + kSharded, Nets()), TrainWatched(4, solver, Nets()), type);
  }
}

TEST_F(ShardedUpdatesTest, TheResultDoesNotDependOnHowWeightsTravelTogether) {
  const Run plain = TrainWatched(4, BaseSolver(), Nets());
  for (const char* fusion : {"none", "single", "fixed", "two", "greedy", "optimal"}) {
    const std::string fields =
        StrCat(" distributed { shard_updates: true bucket_bytes: 100 fusion: \"", fusion, "\" }");
    ExpectSame(TrainWatched(4, BaseSolver() + fields, Nets()), plain, fusion);
  }
}

// Sums within the forward pass come behind what is gathered for it.
TEST_F(ShardedUpdatesTest, SyncedNormsSumInTheSameForwardPass) {
  std::string text = TaskNet(16);
  text.insert(text.find("type: \"BatchNorm\"") + 17, " batch_norm_param { sync_ranks: 0 }");
  ExpectSame(TrainWatched(4, BaseSolver() + kSharded, Nets(1, text)), TrainWatched(4, BaseSolver(), Nets(1, text)),
             "sync_ranks");
}

TEST_F(ShardedUpdatesTest, ALossThatIsNotFiniteKeepsAllWeights) {
  const auto poison = [](int rank, Trainer& trainer) {
    if (rank == 1) FillTask(trainer.train_net().feed(), 2 * 5 + 1, 1, 2);
  };
  const SolverNets nets = Nets(1, Without(TaskNet(16, false), "bn", "ip2"));
  const std::string solver = BaseSolver() + "on_nan: IGNORE test_interval: 1 test_initialization: false";
  const Run plain = TrainWatched(2, solver, nets, {}, poison);
  EXPECT_GT(plain.results[0].state.skipped_updates, 0);
  ExpectSame(TrainWatched(2, solver + kSharded, nets, {}, poison), plain, "on_nan");
}

TEST_F(ShardedUpdatesTest, SeveralBatchesAnIterationAreRefused) {
  try {
    Train(2, BaseSolver() + "iter_size: 2" + kSharded, Plain(8));
    FAIL() << "batches are added up before the sum over ranks";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("iter_size does not work with shard_updates"), std::string::npos) << error.text();
  }
}

// Between two steps weights are on their way: a rank that fails then ends all with its name.
class FailsAt : public TrainObserver {
 public:
  explicit FailsAt(int64_t iteration) : iteration_(iteration) {}
  void OnIteration(const TrainProgress& progress) override {
    if (progress.iteration == iteration_) throw Error(ErrorKind::kBadData, "the disk is full of stones");
  }

 private:
  int64_t iteration_;
};

TEST_F(ShardedUpdatesTest, ARankThatFailsMeanwhileEndsAllWithItsName) {
  for (const int64_t iteration : {1, 2, 3, 4, 9, 17}) {
    FailsAt fails(iteration);
    std::atomic<int> told = 0;
    std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(4);
    RunRanks(transports, [&](Transport& transport) {
      const int rank = transport.rank();
      Communicator world(std::move(transports[static_cast<size_t>(rank)]), {}, std::chrono::seconds(30));
      TrainerOptions options;
      options.take_signals = false;
      options.world = &world;
      if (rank == 2) options.observer = &fails;
      Trainer trainer(Merged(BaseSolver() + kSharded), Plain(), std::move(options));
      FillTask(trainer.train_net().feed(), -1, rank, 4);
      FillTask(trainer.test_net(0).feed(), -1, rank, 4);
      try {
        trainer.Run();
        ADD_FAILURE() << "rank " << rank << " goes on";
      } catch (const Error& error) {
        world.Fail(error.what());
        EXPECT_NE(error.text().find("stones"), std::string::npos) << rank << ": " << error.text();
        if (rank == 2) return;
        EXPECT_EQ(error.kind(), ErrorKind::kPeer);
        EXPECT_NE(error.text().find("rank 2 on this host"), std::string::npos) << rank << ": " << error.text();
        ++told;
      }
    });
    EXPECT_EQ(told, 3) << iteration;
  }
}

TEST_F(ShardedUpdatesTest, BadDataOfOneRankEndsAllWithItsName) {
  try {
    Train(4, BaseSolver() + kSharded, Plain(), {}, [](int rank, Trainer& trainer) {
      if (rank != 1) return;
      auto* pipeline = dynamic_cast<MemoryPipeline*>(trainer.train_net().feed().pipeline("data"));
      ASSERT_NE(pipeline, nullptr);
      std::vector<float> labels(40, 1.0F);
      labels[30] = 9;  // in the eighth iteration
      pipeline->Fill(std::vector<float>(40 * kFeatures, 1.0F), labels);
    });
    FAIL() << "rank 1 has bad data";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_NE(error.text().find("rank 1 on this host"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("label 9"), std::string::npos) << error.text();
  }
}

}  // namespace
}  // namespace moka
