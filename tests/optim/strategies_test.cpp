// How ranks come to the same weights by other ways than summing every gradient: each way against one rank, against
// itself resumed, and against what its paper says.
#include "data/pipeline/memory_pipeline.h"
#include "optim/strategies/strategy.h"

#include "ranks_fixture.h"

namespace moka {
namespace {

class StrategiesTest : public RanksTest {
 protected:
  static std::string With(const std::string& fields) { return "distributed { " + fields + " }"; }
  // Weights and slots; not sums of gradients, which are of the last batch or the last checkpoint.
  static std::map<std::string, std::vector<float>> Kept(const Result& result) {
    std::map<std::string, std::vector<float>> kept;
    for (const auto& [name, values] : result.values) {
      if (!name.ends_with("/@sum") && name.find("/@waiting") == std::string::npos) kept[name] = values;
    }
    return kept;
  }
  static void ExpectAgreed(const std::vector<Result>& results) {
    for (const Result& result : results) EXPECT_EQ(Kept(result), Kept(results[0]));
  }
};

// A strategy that is synchronous by another name trains as one rank does.
class SynchronousFormsTest : public StrategiesTest, public testing::WithParamInterface<const char*> {};

TEST_P(SynchronousFormsTest, TrainAsOneRankDoes) {
  const auto alone = Make(BaseSolver(), {}, Plain());
  alone->Run();
  for (const int ranks : {2, 4}) {
    const std::vector<Result> results = Train(ranks, BaseSolver() + GetParam(), Plain());
    ExpectAgreed(results);
    ExpectNear(Kept(results[0]), Everything(*alone), 5e-5F);
    EXPECT_NEAR(results[0].state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, SynchronousFormsTest,
                         testing::Values("distributed { strategy: \"local\" local_steps: 1 }",
                                         "distributed { strategy: \"local\" local_from_iter: 30 }",
                                         "distributed { strategy: \"delayed\" delay: 0 }",
                                         "distributed { strategy: \"parameter_server\" }"));

TEST_F(StrategiesTest, ServersHaveTheNormsOfWholeBlobs) {
  for (const char* type : {"LARS", "LAMB", "Adam"}) {
    const std::string solver = BaseSolver() + "base_lr: 0.01 type: \"" + type + "\"";
    const auto alone = Make(solver, {}, Plain());
    alone->Run();
    const std::vector<Result> results = Train(2, solver + " " + With("strategy: \"parameter_server\""), Plain());
    ExpectAgreed(results);
    ExpectNear(Kept(results[0]), Everything(*alone), 5e-5F);
  }
}

// Over one iteration, and up to a step's change of the gradient, the workers' updates are together as long as one.
TEST_F(StrategiesTest, UpdatesOfEveryWorkerAreTogetherThatOfTheMean) {
  for (const char* type : {"SGD", "Adam"}) {
    const std::string solver =
        StrCat(BaseSolver(), "max_iter: 1 momentum: 0 base_lr: 0.01 weight_decay: 1 type: \"", type, "\" ");
    const auto alone = Make(solver, {}, Plain());
    alone->Run();
    const std::vector<float> expected = alone->store().Values("ip2/0");
    for (const char* by : {"strategy: \"turn\"", "strategy: \"parameter_server\" server: \"asynchronous\""}) {
      const std::vector<float> weights = Train(2, solver + With(by), Plain())[0].values.at("ip2/0");
      double difference = 0;
      double moved = 0;
      double size = 0;
      const Trainer fresh(Merged(solver), Plain(), {});
      const std::vector<float> begin = fresh.store().Values("ip2/0");
      for (size_t i = 0; i < weights.size(); ++i) {
        difference += std::pow(double{weights[i] - expected[i]}, 2);
        moved += std::pow(double{weights[i] - begin[i]}, 2);
        size += std::pow(double{expected[i] - begin[i]}, 2);
      }
      EXPECT_LT(std::sqrt(difference / size), type == std::string("SGD") ? 0.1 : 0.5) << type << " " << by;
      EXPECT_LT(std::sqrt(moved / size), 1.05) << type << " " << by;
    }
  }
}

TEST_F(StrategiesTest, WithDelaysAWishIsGrantedOnce) {
  struct Watch : TrainObserver {
    void OnIteration(const TrainProgress&) override {
      if (trainer->train_net().wishes().count(1) > 0) ++granted;
      if (++iteration == 10) trainer->train_net().wishes().Want(1);
    }
    Trainer* trainer = nullptr;
    int iteration = 0;
    int granted = 0;
  };
  std::array<Watch, 2> watches;
  Train(
      2, BaseSolver() + With("strategy: \"delayed\" delay: 3"), Plain(),
      [&](int rank, TrainerOptions& options) { options.observer = &watches.at(static_cast<size_t>(rank)); },
      [&](int rank, Trainer& trainer) {
        watches.at(static_cast<size_t>(rank)).trainer = &trainer;
        if (rank == 1) trainer.train_net().wishes().Want(1);
      });
  for (const Watch& watch : watches) EXPECT_EQ(watch.granted, 2);
}

TEST_F(StrategiesTest, LocalStepsAreThoseOfEachRankAlone) {
  // Two ranks that agree at the end only, beside two trainings of one rank on the same samples.
  const std::string solver = BaseSolver() + "max_iter: 4 test_interval: 0";
  const std::vector<Result> results = Train(2, solver + " " + With("strategy: \"local\" local_steps: 100"), Plain());
  ExpectAgreed(results);
  std::vector<std::vector<float>> weights;
  for (int rank = 0; rank < 2; ++rank) {
    Trainer alone(Merged(solver), Plain(8), {});
    FillTask(alone.train_net().feed(), -1, rank, 2);
    FillTask(alone.test_net(0).feed());
    alone.Run();
    weights.push_back(alone.store().Values("ip1/0"));
  }
  const std::vector<float>& mean = results[0].values.at("ip1/0");
  for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], (weights[0][i] + weights[1][i]) / 2, 1e-6) << i;
}

// Sums have the order of the ranks either way.
TEST_F(StrategiesTest, ShardedUpdatesAreThoseOfAllRanksBitForBit) {
  for (const char* type : {"SGD", "LARS", "LAMB"}) {
    const std::string solver = BaseSolver() + "base_lr: 0.01 type: \"" + type + "\" ";
    const Result plain = Train(4, solver, Nets())[0];
    const std::vector<Result> sharded = Train(4, solver + With("shard_updates: true"), Nets());
    size_t slots = 0;
    for (const Result& result : sharded) {
      for (const auto& [name, values] : result.values) {
        EXPECT_EQ(values, plain.values.at(name)) << type << " " << name;
        slots += name.find("/@") == std::string::npos ? 0 : 1;
      }
      EXPECT_LT(result.values.size(), plain.values.size()) << "slots of others' weights are not kept";
    }
    size_t all = 0;
    for (const auto& [name, values] : plain.values) all += name.find("/@") == std::string::npos ? 0 : 1;
    EXPECT_EQ(slots, all) << "each slot has one keeper";
  }
}

TEST_F(StrategiesTest, ShardedSlotsAreInCheckpointsWhoeverKeepsThem) {
  const std::string solver = BaseSolver() + "type: \"Adam\" base_lr: 0.01 ";
  const Result whole = Train(4, solver, Nets())[0];
  RunFolder run = NewRun();
  Train(4, solver + With("shard_updates: true"), Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 13;
  });
  // Resumed without sharding, and with it.
  for (const bool shards : {false, true}) {
    const std::vector<Result> resumed = Train(
        4, solver + With(StrCat("shard_updates: ", shards ? "true" : "false")), Nets(),
        [&](int, TrainerOptions& options) { options.resume = LoadCheckpoint(run.checkpoints() / "iter_0000013"); });
    for (const Result& result : resumed) {
      for (const auto& [name, values] : result.values) EXPECT_EQ(values, whole.values.at(name)) << name;
    }
  }
}

class LearningTest : public StrategiesTest, public testing::WithParamInterface<const char*> {};

TEST_P(LearningTest, LearnsTheTaskAndAllRanksAgree) {
  const std::vector<Result> results =
      Train(4, BaseSolver() + "base_lr: 0.05 momentum: 0.5 max_iter: 60 " + With(GetParam()), Plain());
  ExpectAgreed(results);
  ASSERT_TRUE(results[0].end.best.has_value());
  EXPECT_GE(*results[0].end.best, 0.95);
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, LearningTest,
    testing::Values("strategy: \"local\" local_steps: 4", "strategy: \"turn\"", "strategy: \"parameter_server\"",
                    "strategy: \"delayed\"", "strategy: \"delayed\" delay: 2",
                    "strategy: \"delayed\" delay: 2 dynamic_delay: true",
                    "strategy: \"parameter_server\" server: \"asynchronous\"",
                    "strategy: \"parameter_server\" server: \"stale\" staleness: 1",
                    "strategy: \"parameter_server\" server: \"asynchronous\" delay_compensation: 0.5"));

class ResumedTest : public StrategiesTest, public testing::WithParamInterface<const char*> {};

TEST_P(ResumedTest, EndsBitIdentical) {
  // Checkpoints let the ranks agree, so both have them at the same places.
  const std::string solver = BaseSolver() + "snapshot: 5 " + With(GetParam());
  RunFolder whole_run = NewRun("whole");
  const auto in = [](RunFolder& run, int64_t stop, bool resumes) {
    return [&run, stop, resumes](int rank, TrainerOptions& options) {
      if (rank == 0) options.run = &run;
      options.stop_after = stop;
      if (resumes) options.resume = FindNewestValid(run.checkpoints());
    };
  };
  const Result whole = Train(2, solver, Nets(), in(whole_run, -1, false))[0];
  RunFolder run = NewRun();
  for (const Result& result : Train(2, solver, Nets(), in(run, 15, false))) {
    EXPECT_EQ(result.end.end, TrainEnd::kInterrupted);
  }
  for (const Result& result : Train(2, solver, Nets(), in(run, -1, true))) {
    EXPECT_EQ(Kept(result), Kept(whole));
    EXPECT_EQ(result.end.iteration, 30);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, ResumedTest,
                         testing::Values("strategy: \"local\" local_steps: 4", "strategy: \"turn\"",
                                         "strategy: \"delayed\" delay: 2", "strategy: \"parameter_server\""));

// Sums that waited when the checkpoint was written are of four ranks, and the update is by two.
TEST_F(StrategiesTest, DelayedSumsCountAlikeForFewerRanks) {
  const std::string solver = BaseSolver() + With("strategy: \"delayed\" delay: 2");
  RunFolder run = NewRun();
  Train(4, solver, Plain(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 15;
  });
  const auto resume = [&](int ranks) {
    return Train(ranks, solver, Plain(),
                 [&](int, TrainerOptions& options) { options.resume = FindNewestValid(run.checkpoints()); })[0];
  };
  ExpectNear(Kept(resume(2)), Kept(resume(4)), 1e-4F);
}

TEST_F(StrategiesTest, SeveralBatchesAnIterationAreOnePush) {
  const auto alone = Make(BaseSolver() + "max_iter: 12", {}, Plain());
  alone->Run();
  const std::vector<Result> results =
      Train(2, BaseSolver() + "max_iter: 12 iter_size: 2 " + With("strategy: \"parameter_server\""), Plain(8));
  ExpectAgreed(results);
  const auto& weights = results[0].values.at("ip1/0");
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(weights[i], alone->store().Values("ip1/0")[i], 5e-5) << i;
}

TEST_F(StrategiesTest, OneRanksErrorEndsAllWithItsName) {
  for (const char* fields : {"strategy: \"local\" local_steps: 4", "strategy: \"parameter_server\"",
                             "strategy: \"parameter_server\" server: \"asynchronous\""}) {
    try {
      Train(4, BaseSolver() + With(fields), Plain(), {}, [](int rank, Trainer& trainer) {
        if (rank != 1) return;
        auto* pipeline = dynamic_cast<MemoryPipeline*>(trainer.train_net().feed().pipeline("data"));
        ASSERT_NE(pipeline, nullptr);
        pipeline->Fill(std::vector<float>(4 * kFeatures, 1.0F), std::vector<float>{0, 1, 9, 3});
      });
      FAIL() << "rank 1 has bad data";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer) << fields;
      EXPECT_NE(error.text().find("label 9"), std::string::npos) << fields << ": " << error.text();
    }
  }
}

// By the statistics of all ranks, a net with batch norms trains as one rank does.
TEST_F(StrategiesTest, SyncedNormsAreThoseOfTheWholeBatch) {
  const auto net = [](const std::string& norm) {
    std::string text = TaskNet(16, false);
    const size_t at = text.find("type: \"BatchNorm\"") + 17;
    return Nets(1, text.insert(at, " " + norm));
  };
  const auto alone = Make(BaseSolver(), {}, net(""));
  alone->Run();
  for (const int ranks : {2, 4}) {
    const std::vector<Result> results = Train(ranks, BaseSolver(), net("batch_norm_param { sync_ranks: 0 }"));
    ExpectAgreed(results);
    ExpectNear(Kept(results[0]), Everything(*alone), 2e-4F);
    EXPECT_NEAR(results[0].state.smoothed_loss, alone->state().smoothed_loss, 1e-5);
  }
  // Groups of two: as one rank each of half the batch, but for the order of the sums.
  const std::vector<Result> pairs = Train(4, BaseSolver(), net("batch_norm_param { sync_ranks: 2 }"));
  ExpectAgreed(pairs);
  const Result halves = Train(2, BaseSolver(), net(""))[0];
  EXPECT_NE(pairs[0].values.at("ip1/0"), halves.values.at("ip1/0")) << "pairs have other samples than every second";
  try {
    Train(4, BaseSolver(), net("batch_norm_param { sync_ranks: 3 }"));
    FAIL() << "3 do not divide 4";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("groups of 3 do not divide 4 ranks"), std::string::npos) << error.text();
  }
}

TEST_F(StrategiesTest, WhatDoesNotGoTogetherIsRefused) {
  const auto text = [](const std::string& fields) -> std::string {
    try {
      (void)StrategyOf(Merged(BaseSolver() + fields));
      return "accepted";
    } catch (const Error& error) {
      return error.text() + " / " + error.hint();
    }
  };
  EXPECT_EQ(text("distributed { strategy: \"locl\" }"), "unknown strategy \"locl\" / did you mean \"local\"?");
  EXPECT_EQ(text("distributed { strategy: \"parameter_server\" server: \"eager\" }"),
            "unknown server \"eager\" / known are synchronous, asynchronous, stale");
  EXPECT_EQ(text("distributed { strategy: \"local\" local_steps: 0 }"), "local_steps must be at least 1, and is 0 / ");
  EXPECT_EQ(text("clip_gradients: 1 distributed { strategy: \"turn\" }"),
            "clip_gradients does not work with strategy \"turn\" / leave it out, or train with strategy: "
            "\"synchronous\"");
  EXPECT_EQ(text("clip_gradients: 1 distributed { strategy: \"local\" }"), "accepted");
}

}  // namespace
}  // namespace moka
