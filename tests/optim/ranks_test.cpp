// Training by several ranks, as threads of one process: what they compute together is what one computes alone, all of
// them hold the same bits, and they stop, resume and fail together.
#include "data/pipeline/memory_pipeline.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

class RanksSolverTest : public RanksTest, public testing::WithParamInterface<const char*> {};

TEST_P(RanksSolverTest, TrainAsOneRankDoesOnTheWholeBatch) {
  const std::string solver = BaseSolver() + GetParam();
  const auto alone = Make(solver, {}, Plain());
  const TrainResult expected = alone->Run();
  for (const int ranks : {2, 4}) {
    const std::vector<Result> results = Train(ranks, solver, Plain());
    for (const Result& result : results) {
      EXPECT_EQ(result.values, results[0].values);
      EXPECT_EQ(result.state.smoothed_loss, results[0].state.smoothed_loss);
      EXPECT_EQ(result.end.best, results[0].end.best);
    }
    ExpectNear(results[0].values, Everything(*alone), 5e-5F);
    EXPECT_NEAR(results[0].state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
    EXPECT_EQ(results[0].end.best, expected.best);
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, RanksSolverTest,
                         testing::Values("", "type: \"Nesterov\" clip_gradients: 0.5", "type: \"LARS\"",
                                         "type: \"Adam\" base_lr: 0.01 ema_decay: 0.9",
                                         "type: \"LAMB\" base_lr: 0.01"));

TEST_F(RanksTest, SeveralBatchesAnIterationAreExchangedOnce) {
  std::string solver = BaseSolver() + "max_iter: 12";
  const auto alone = Make(solver, {}, Plain());
  alone->Run();
  const std::vector<Result> results = Train(2, solver + " iter_size: 2", Plain(8));
  EXPECT_EQ(results[0].values, results[1].values);
  const auto& weights = results[0].values.at("ip1/0");
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], alone->store().Values("ip1/0")[i], 5e-5) << i;
  EXPECT_NEAR(results[0].state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
}

TEST_F(RanksTest, AllHoldTheSameStatisticsOfBatchNorms) {
  for (const char* more : {"", "iter_size: 2"}) {
    const std::vector<Result> results = Train(4, BaseSolver() + more, Nets());
    for (const Result& result : results) EXPECT_EQ(result.values, results[0].values) << more;
  }
}

TEST_F(RanksTest, MeansOfBatchNormsAreThoseOfTheWholeBatch) {
  const auto alone = Make(BaseSolver() + "max_iter: 1", {}, Nets());
  alone->Run();
  const std::vector<Result> results = Train(4, BaseSolver() + "max_iter: 1", Nets());
  const std::vector<float> expected = alone->store().Values("bn/0");
  const std::vector<float>& mean = results[0].values.at("bn/0");
  for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], expected[i], 1e-5) << i;
}

TEST_F(RanksTest, TheResultDoesNotDependOnHowGradientsAreJoined) {
  const auto with = [&](const std::string& fusion) {
    return Train(4, BaseSolver() + "distributed { bucket_bytes: 100 fusion: \"" + fusion + "\" }", Nets())[0];
  };
  const Result single = with("single");
  EXPECT_NE(single.plan.find("in 1 bucket"), std::string::npos) << single.plan;
  for (const char* fusion : {"none", "fixed", "two", "greedy", "optimal"}) {
    const Result other = with(fusion);
    EXPECT_EQ(other.values, single.values) << fusion;
    EXPECT_EQ(other.state.loss_window, single.state.loss_window) << fusion;
  }
  EXPECT_EQ(with("none").plan.find("in 1 bucket"), std::string::npos);
}

TEST_F(RanksTest, SumsBeginWhileTheBackwardPassGoesOn) {
  Train(2, BaseSolver() + "max_iter: 1", Plain(), {}, [](int, Trainer& trainer) {
    const auto& steps = trainer.train_net().program().steps();
    std::string order;
    for (const StepReport& step : steps) order += StrCat(step.op, " ", step.layer, "\n");
    const auto begun = [&](const std::string& layer) {
      return std::ranges::find_if(
          steps, [&](const StepReport& s) { return s.op == "all_reduce_begin" && s.layer.starts_with(layer); });
    };
    const auto last_product =
        std::ranges::find_if(steps.rbegin(), steps.rend(),
                             [](const StepReport& s) { return s.op == "matmul" && s.layer.starts_with("ip1"); })
            .base() -
        1;
    ASSERT_NE(begun("ip2"), steps.end()) << order;
    EXPECT_LT(begun("ip2"), last_product) << "the gradients of ip2 travel while those of ip1 are computed\n" << order;
    EXPECT_GT(begun("ip1"), last_product) << order;
  });
}

TEST_F(RanksTest, HalfTypesOnTheWireStayNear) {
  const Result full = Train(2, BaseSolver(), Plain())[0];
  for (const char* wire : {"float16", "bfloat16"}) {
    const std::vector<Result> results = Train(2, BaseSolver() + "distributed { wire: \"" + wire + "\" }", Plain());
    EXPECT_EQ(results[0].values, results[1].values);
    EXPECT_NE(results[0].values, full.values);
    ExpectNear(results[0].values, full.values, 0.05F);
  }
}

TEST_F(RanksTest, HalfTypesOnTheWireAreForGradientsOnly) {
  const std::string solver = BaseSolver() + "max_iter: 1 ";
  const Result full = Train(2, solver, Nets())[0];
  const Result half = Train(2, solver + "distributed { wire: \"bfloat16\" }", Nets())[0];
  for (const char* statistic : {"bn/0", "bn/1"}) EXPECT_EQ(half.values.at(statistic), full.values.at(statistic));
  EXPECT_EQ(half.state.smoothed_loss, full.state.smoothed_loss);
  EXPECT_NE(half.values.at("ip1/0"), full.values.at("ip1/0"));
  const std::string local = "strategy: \"local\" local_steps: 2";
  EXPECT_EQ(Train(2, BaseSolver() + "distributed { " + local + " wire: \"float16\" }", Plain())[0].values,
            Train(2, BaseSolver() + "distributed { " + local + " }", Plain())[0].values)
      << "means are of weights";
}

TEST_F(RanksTest, AResumedRunEndsBitIdentical) {
  const std::string solver = BaseSolver() + "type: \"Adam\" base_lr: 0.01";
  const Result whole = Train(2, solver, Nets())[0];
  RunFolder run = NewRun();
  const std::vector<Result> stopped = Train(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 17;
  });
  for (const Result& result : stopped) EXPECT_EQ(result.end.end, TrainEnd::kInterrupted);
  const std::vector<Result> resumed = Train(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.resume = FindNewestValid(run.checkpoints());
  });
  for (const Result& result : resumed) {
    EXPECT_EQ(result.values, whole.values);
    EXPECT_EQ(result.end.iteration, 30);
    EXPECT_EQ(result.state.best, whole.state.best);
  }
}

TEST_F(RanksTest, PositionsAreThoseOfAllRanks) {
  RunFolder run = NewRun();
  Train(4, BaseSolver(), Plain(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 7;
  });
  const std::optional<Checkpoint> checkpoint = FindNewestValid(run.checkpoints());
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->trainer.positions.at("train/data"), 7 * 16);
}

TEST_F(RanksTest, OneRanksErrorEndsAllWithItsName) {
  try {
    Train(4, BaseSolver(), Plain(), {}, [](int rank, Trainer& trainer) {
      if (rank != 1) return;
      // A label outside its classes.
      auto* pipeline = dynamic_cast<MemoryPipeline*>(trainer.train_net().feed().pipeline("data"));
      ASSERT_NE(pipeline, nullptr);
      pipeline->Fill(std::vector<float>(4 * kFeatures, 1.0F), std::vector<float>{0, 1, 9, 3});
    });
    FAIL() << "rank 1 has bad data";
  } catch (const Error& error) {  // rank 0's: the first
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_NE(error.text().find("rank 1 on this host"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("label 9"), std::string::npos) << error.text();
  }
}

TEST_F(RanksTest, ALossThatIsNotFiniteOnOneRankIsSkippedByAll) {
  const auto poison = [](int rank, Trainer& trainer) {
    if (rank == 1) FillTask(trainer.train_net().feed(), 2 * 5 + 1, 1, 2);  // sample 11 is rank 1's sixth
  };
  // A ReLU is left out, as it makes 0 of a NaN.
  const SolverNets nets = Nets(1, Without(TaskNet(16, false), "bn", "ip2"));
  const std::vector<Result> results = Train(2, BaseSolver() + "on_nan: IGNORE", nets, {}, poison);
  EXPECT_EQ(results[0].values, results[1].values);
  EXPECT_GT(results[0].state.skipped_updates, 0);
  EXPECT_EQ(results[0].state.skipped_updates, results[1].state.skipped_updates);
  for (const auto& [name, values] : results[0].values) {
    for (const float v : values) ASSERT_TRUE(std::isfinite(v)) << name;
  }
}

// The batches after a bad one are taken by the rank that has it, too.
TEST_F(RanksTest, WithSeveralBatchesAnIterationASkippedOneIsThatOfOneRank) {
  const std::string solver = BaseSolver() + "iter_size: 2 on_nan: IGNORE";
  const auto nets = [](int batch) { return Nets(1, Without(TaskNet(batch, false), "bn", "ip2")); };
  const std::vector<Result> results = Train(2, solver, nets(16), {}, [](int rank, Trainer& trainer) {
    if (rank == 1) FillTask(trainer.train_net().feed(), 11, 1, 2);
  });
  const auto alone =
      Train(1, solver, nets(16), {}, [](int, Trainer& trainer) { FillTask(trainer.train_net().feed(), 11); })[0];
  EXPECT_EQ(results[0].values, results[1].values);
  EXPECT_EQ(results[0].state.skipped_updates, alone.state.skipped_updates);
  EXPECT_GT(alone.state.skipped_updates, 10);
  ExpectNear(results[0].values, alone.values, 1e-4F);
}

TEST_F(RanksTest, DifferentNetsAreRefused) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(2);
  std::atomic<int> refused = 0;
  RunRanks(transports, [&](Transport& transport) {
    const int rank = transport.rank();
    Communicator world(std::move(transports[static_cast<size_t>(rank)]));
    std::string text = TaskNet(8);
    if (rank == 1) text.replace(text.find("num_output: 16"), 14, "num_output: 24");
    TrainerOptions options;
    options.world = &world;
    try {
      Trainer trainer(Merged(BaseSolver()), Nets(1, text), std::move(options));
      ADD_FAILURE() << "the nets differ";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      EXPECT_NE(error.text().find("the ranks do not train the same program"), std::string::npos) << error.text();
      ++refused;
    }
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace moka
