// Trainings whose gradients cross compressed: ranks stay alike, learn, resume to the same bits, and are told what does
// not go together.
#include "optim/step/compression_policy.h"

#include "core/error.h"
#include "ranks_fixture.h"

namespace moka {
namespace {

class CompressionTrainingTest : public RanksTest {
 protected:
  static std::string With(const std::string& method, const std::string& more = "") {
    return StrCat(BaseSolver(), "distributed { compression { method: \"", method,
                  "\" min_elements: 32 density: 0.1 rank: 1 force: true } } | distributed { compression { ", more,
                  " } }");
  }
  static std::string Refusal(const std::string& solver) {
    try {
      Train(2, solver, Plain());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig) << error.text();
      return StrCat(error.text(), "; ", error.hint());
    }
    return {};
  }
};

class CompressionMethodTest : public CompressionTrainingTest, public testing::WithParamInterface<const char*> {};

TEST_P(CompressionMethodTest, RanksStayAlikeAndLearn) {
  for (const int ranks : {2, 4}) {
    const std::vector<Result> results = Train(ranks, With(GetParam()) + " | base_lr: 0.05", Plain());
    for (const Result& result : results) {
      EXPECT_EQ(result.values, results[0].values);
      EXPECT_EQ(result.state.loss_window, results[0].state.loss_window);
    }
    EXPECT_GE(results[0].end.best.value_or(0), 0.9);
    EXPECT_NE(results[0].values, Train(ranks, BaseSolver() + "base_lr: 0.05", Plain())[0].values);
  }
}

TEST_P(CompressionMethodTest, TheResultDoesNotDependOnHowGradientsAreJoined) {
  const auto with = [&](const std::string& fusion) {
    return Train(4, With(GetParam()) + " | distributed { fusion: \"" + fusion + "\" }", Nets())[0].values;
  };
  EXPECT_EQ(with("none"), with("single"));
}

TEST_P(CompressionMethodTest, BeforeItsFirstIterationItIsNotThere) {
  const Result plain = Train(2, BaseSolver(), Plain())[0];
  const Result later = Train(2, With(GetParam(), "start_iter: 1000"), Plain())[0];
  // DGC's update is another expression of the same numbers.
  ExpectNear(later.values, plain.values, std::string(GetParam()) == "dgc" ? 1e-5F : 0.0F);
}

TEST_P(CompressionMethodTest, AResumedRunEndsBitIdentical) {
  const std::string solver = With(GetParam(), "warmup_iter: 20");
  const Result whole = Train(2, solver, Nets())[0];
  RunFolder run = NewRun();
  Train(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 17;
  });
  const std::vector<Result> resumed = Train(2, solver, Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.resume = FindNewestValid(run.checkpoints());
  });
  for (const Result& result : resumed) {
    EXPECT_EQ(result.values, whole.values);
    EXPECT_EQ(result.end.iteration, 30);
  }
}

TEST_P(CompressionMethodTest, AnotherNumberOfRanksGoesOnWithNothingKept) {
  RunFolder run = NewRun();
  Train(2, With(GetParam()), Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 17;
  });
  const std::vector<Result> resumed = Train(4, With(GetParam()), Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.resume = FindNewestValid(run.checkpoints());
  });
  for (const Result& result : resumed) {
    EXPECT_EQ(result.values, resumed[0].values);
    EXPECT_EQ(result.end.iteration, 30);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, CompressionMethodTest,
                         testing::Values("dgc", "powersgd", "qsgd", "sign", "terngrad"));

TEST_F(CompressionTrainingTest, StatesOfAllRanksAreInTheCheckpoint) {
  RunFolder run = NewRun();
  Train(2, With("dgc"), Nets(), [&](int rank, TrainerOptions& options) {
    if (rank == 0) options.run = &run;
    options.stop_after = 5;
  });
  const std::optional<Checkpoint> checkpoint = FindNewestValid(run.checkpoints());
  ASSERT_TRUE(checkpoint.has_value());
  std::map<std::string, std::vector<float>> states;
  for (const RankMemory& state : checkpoint->rank_states) states[state.name] = state.tensor.values;
  EXPECT_EQ(states.size(), 8U);  // of two blobs, two ranks
  for (const char* name : {"residual@0:ip1/0", "residual@1:ip1/0", "momentum@1:ip2/0"}) {
    ASSERT_TRUE(states.contains(name)) << name;
  }
  EXPECT_EQ(states.at("residual@0:ip1/0").size(), 96U);
  EXPECT_NE(states.at("residual@0:ip1/0"), states.at("residual@1:ip1/0"));
}

// Momentum is the compressor's: the optimiser's history has the decay's part alone.
TEST_F(CompressionTrainingTest, MomentumIsAppliedOnce) {
  const std::string no_decay = " | weight_decay: 0";
  const std::vector<Result> results = Train(2, With("dgc") + no_decay, Plain());
  for (const char* blob : {"ip1/0", "ip2/0"}) {
    const std::vector<float>& history = results[0].values.at(SlotName(blob, "history"));
    EXPECT_TRUE(std::ranges::all_of(history, [](float h) { return h == 0; })) << blob;
  }
  const std::vector<float>& bias = results[0].values.at(SlotName("ip2/1", "history"));
  EXPECT_TRUE(std::ranges::any_of(bias, [](float h) { return h != 0; }));
}

TEST_F(CompressionTrainingTest, SeveralBatchesAnIteration) {
  for (const char* method : {"dgc", "sign"}) {
    const std::vector<Result> results = Train(2, With(method) + " | iter_size: 2", Plain(8));
    EXPECT_EQ(results[0].values, results[1].values);
    EXPECT_GE(results[0].end.best.value_or(0), 0.9) << method;
  }
}

TEST_F(CompressionTrainingTest, RefusesWhatDoesNotGoTogether) {
  EXPECT_NE(Refusal(With("dcg")).find("dgc"), std::string::npos);
  EXPECT_NE(Refusal(With("dgc", "density: 2")).find("density is 2"), std::string::npos);
  EXPECT_NE(Refusal(With("dgc") + "| type: \"Adam\" base_lr: 0.01").find("type is \"Adam\""), std::string::npos);
  EXPECT_NE(Refusal(With("dgc") + "| clip_gradients: 1").find("clip_gradients"), std::string::npos);
  EXPECT_NE(Refusal(With("dgc") + "| larc: true").find("rates from norms"), std::string::npos);
  EXPECT_EQ(Refusal(With("sign") + "| clip_gradients: 1"), "");
  EXPECT_NE(Refusal(With("sign", "min_elements: 100000")).find("finds no weight of 100000 elements"),
            std::string::npos);
}

TEST_F(CompressionTrainingTest, RefusesWhatDoesNotPay) {
  const std::string why = Refusal(With("sign", "force: false"));
  EXPECT_NE(why.find("compression does not pay: sign: 2 of "), std::string::npos) << why;
  EXPECT_NE(why.find("force: true"), std::string::npos) << why;
}

}  // namespace
}  // namespace moka
