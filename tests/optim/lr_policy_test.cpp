// Every policy's rate against goldens, and the policies' limits.
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/lr_policies.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "optim_fixture.h"

namespace moka {
namespace {

TEST(LrPolicyTest, EveryRateMatchesTheGoldens) {
  const auto goldens = nlohmann::json::parse(ReadFile(MOKA_SOURCE_DIR "/tests/golden/solvers.json"));
  ASSERT_GE(goldens.at("rates").size(), 22U);
  for (const auto& golden : goldens.at("rates")) {
    const SolverParameter solver = Solver(golden.at("solver").get<std::string>());
    CheckLrPolicy(solver);
    for (size_t i = 0; i < golden.at("iterations").size(); ++i) {
      const auto expected = golden.at("rates")[i].get<double>();
      EXPECT_NEAR(LearningRate(solver, golden.at("iterations")[i].get<int64_t>()), expected, 1e-6 * expected + 1e-12)
          << golden.at("name") << " at " << golden.at("iterations")[i];
    }
  }
}

TEST(LrPolicyTest, PolyAndCosineStayAtTheirEnd) {
  for (const std::string policy : {"poly", "cosine"}) {
    const SolverParameter solver =
        Solver(StrCat("base_lr: 0.5 power: 2 max_iter: 100 min_lr: 0.125 lr_policy: \"", policy, "\""));
    EXPECT_DOUBLE_EQ(LearningRate(solver, 0), 0.5);
    EXPECT_DOUBLE_EQ(LearningRate(solver, 100), 0.125);
    EXPECT_DOUBLE_EQ(LearningRate(solver, 100000), 0.125);
  }
}

TEST(LrPolicyTest, WarmUpRisesToTheBaseRate) {
  const SolverParameter solver =
      Solver("base_lr: 1 lr_policy: \"poly\" power: 1 max_iter: 1000 warmup_iter: 100 warmup_start_lr: 0.1");
  EXPECT_NEAR(LearningRate(solver, 0), 0.1, 1e-7);
  EXPECT_NEAR(LearningRate(solver, 99), 0.991, 1e-7);
  EXPECT_NEAR(LearningRate(solver, 100), 0.9, 1e-7);
}

TEST(LrPolicyTest, WhereNoBaseRateIsGivenAWarmUpRisesToTheFirstStage) {
  const std::string stages = "lr_policy: \"multifixed\" stagelr: 0.5 stagelr: 0.25 stageiter: 9 stageiter: 20 ";
  const SolverParameter solver = Solver(stages + "warmup_iter: 4 warmup_start_lr: 0.1 min_lr: 0.3");
  CheckLrPolicy(solver);
  EXPECT_NEAR(LearningRate(solver, 1), 0.2, 1e-7);
  EXPECT_NEAR(LearningRate(solver, 4), 0.5, 1e-7);
  EXPECT_NEAR(LearningRate(solver, 10), 0.3, 1e-7) << "min_lr";
  EXPECT_NEAR(LearningRate(Solver(stages + "rampup_interval: 4"), 2), 0.125, 1e-7);
  EXPECT_NEAR(LearningRate(Solver(stages + "warmup_iter: 4 base_lr: 4"), 2), 2, 1e-7) << "as in Intel's Caffe";
  EXPECT_THAT(ErrorOf([&] { CheckLrPolicy(Solver(stages + "min_lr: 0.6")); }).text,
              testing::HasSubstr("min_lr 0.6 is above the first rate, 0.5"));
  EXPECT_THAT(ErrorOf([&] { CheckLrPolicy(Solver(stages + "warmup_iter: 4 rampup_interval: 6")); }).text,
              testing::HasSubstr("warmup_iter and rampup_interval are two ways for the rate to begin"));
}

TEST(LrPolicyTest, APolicyAfterWarmUpStartsAtTheBaseRate) {
  const std::string text = "base_lr: 16 lr_policy: \"poly\" power: 2 max_iter: 1000 warmup_iter: 200 min_lr: 0.5 ";
  const SolverParameter solver = Solver(text + "policy_after_warmup: true");
  CheckLrPolicy(solver);
  EXPECT_EQ(WarmupEnd(solver), 200);
  const auto expected = [](double i) { return (16 - 0.5) * std::pow(1 - (i - 200) / (1000 - 200), 2) + 0.5; };
  EXPECT_EQ(LearningRate(solver, 0), 0);
  EXPECT_DOUBLE_EQ(LearningRate(solver, 199), 16.0 * 199 / 200);
  for (const int64_t i : {200, 201, 600, 999, 1000}) {
    EXPECT_DOUBLE_EQ(LearningRate(solver, i), expected(static_cast<double>(i))) << i;
  }
  EXPECT_EQ(LearningRate(solver, 200), 16);
  EXPECT_EQ(LearningRate(solver, 5000), 0.5);
  // Counted from 0, the same solver leaves the warm-up below its base rate.
  EXPECT_DOUBLE_EQ(LearningRate(Solver(text), 200), 15.5 * 0.8 * 0.8 + 0.5);
}

TEST(LrPolicyTest, APolicyAfterWarmUpLeavesMomentumAndDecay) {
  const std::string text =
      "base_lr: 1 lr_policy: \"poly\" power: 1 max_iter: 100 warmup_iter: 50 momentum: 0.5 momentum_policy: \"poly\" "
      "max_momentum: 0.9 weight_decay_policy: \"poly\" max_weight_decay: 0.2 policy_after_warmup: ";
  for (const int64_t i : {0, 25, 50, 75}) {
    EXPECT_EQ(MomentumAt(Solver(text + "true"), i), MomentumAt(Solver(text + "false"), i));
    EXPECT_EQ(WeightDecayAt(Solver(text + "true"), i), WeightDecayAt(Solver(text + "false"), i));
  }
}

TEST(LrPolicyTest, PlateauFallsWhenTheLossStays) {
  const SolverParameter solver =
      Solver("base_lr: 1 lr_policy: \"plateau\" gamma: 0.5 plateau_winsize: 3 plateau_winsize: 2");
  CheckLrPolicy(solver);
  PlateauState state;
  std::vector<double> rates;
  const std::vector<double> losses = {9, 9, 8, 8, 8, 8, 8, 8, 8, 8};  // losses[i] is known before iteration i
  for (int64_t i = 0; i < 10; ++i) {
    UpdatePlateau(solver, i, losses[static_cast<size_t>(i)], state);
    rates.push_back(LearningRate(solver, i, state.step));
  }
  EXPECT_THAT(rates, testing::ElementsAre(1, 1, 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25));
  EXPECT_EQ(state, (PlateauState{.minimum_loss = 8, .last_event = 7, .step = 2}));
}

TEST(LrPolicyTest, MinLrIsTheFloorOfStep) {
  const SolverParameter solver = Solver("base_lr: 1 lr_policy: \"step\" gamma: 0.1 stepsize: 10 min_lr: 0.0625");
  EXPECT_DOUBLE_EQ(LearningRate(solver, 1000), 0.0625);
}

TEST(LrPolicyTest, GammaIsZeroUnlessGivenAsInCaffe) {
  const auto rates = [](const std::string& text) {
    const SolverParameter solver = Solver("base_lr: 0.5 " + text);
    CheckLrPolicy(solver);
    return std::pair(LearningRate(solver, 4), LearningRate(solver, 5));
  };
  EXPECT_EQ(rates("lr_policy: \"step\" stepsize: 5"), std::pair(0.5, 0.0));
  EXPECT_EQ(rates("lr_policy: \"multistep\" stepvalue: 5"), std::pair(0.5, 0.0));
  EXPECT_EQ(rates("lr_policy: \"multistep\" gamma: 0.1"), std::pair(0.5, 0.5));
  EXPECT_EQ(rates("lr_policy: \"inv\" power: 2"), std::pair(0.5, 0.5));
  EXPECT_EQ(rates("lr_policy: \"exp\""), std::pair(0.0, 0.0));
}

TEST(LrPolicyTest, MistakesAreNamedWithTheirPlace) {
  const auto error = [](const std::string& text) {
    const SolverParameter solver = Solver(text);
    const Caught caught = ErrorOf([&] { CheckLrPolicy(solver); });
    EXPECT_EQ(caught.kind, ErrorKind::kConfig);
    return caught.text;
  };
  EXPECT_THAT(error("lr_policy: \"fixed\""), testing::HasSubstr("has no base_lr"));
  EXPECT_THAT(error("base_lr: 1"), testing::HasSubstr("has no lr_policy"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"stpe\""), testing::AllOf(testing::StartsWith("solver.prototxt:1:"),
                                                                      testing::HasSubstr("unknown lr_policy \"stpe\""),
                                                                      testing::HasSubstr("did you mean \"step\"?")));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"step\" gamma: 0.1"), testing::HasSubstr("\"step\" needs stepsize"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"step\" gamma: 0.1 stepsize: 0"), testing::HasSubstr("at least 1"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"cosine\""), testing::HasSubstr("needs max_iter"));
  EXPECT_THAT(error("base_lr: 0.1 min_lr: 1 lr_policy: \"fixed\""), testing::HasSubstr("above base_lr"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"multifixed\" stagelr: 0.1 stagelr: 1 stageiter: 5"),
              testing::HasSubstr("2 stagelr and 1 stageiter"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"plateau\" gamma: 0.1"), testing::HasSubstr("needs plateau_winsize"));
  EXPECT_THAT(error("base_lr: 1 lr_policy: \"fixed\" momentum_policy: \"poli\""),
              testing::HasSubstr("unknown momentum_policy \"poli\""));
  const std::string poly = "base_lr: 1 lr_policy: \"poly\" power: 2 max_iter: 100 policy_after_warmup: true ";
  EXPECT_THAT(error(poly), testing::AllOf(testing::StartsWith("solver.prototxt:1:"),
                                          testing::HasSubstr("policy_after_warmup needs a warm-up")));
  EXPECT_THAT(error(poly + "warmup_iter: 100"), testing::HasSubstr("leaves lr_policy \"poly\" no iterations"));
  EXPECT_THAT(error(poly + "rampup_interval: 120"), testing::HasSubstr("takes 120, and max_iter is 100"));
  for (const std::string policy : {"lr_policy: \"fixed\"", "lr_policy: \"plateau\" gamma: 0.1 plateau_winsize: 3"}) {
    EXPECT_THAT(error("base_lr: 1 warmup_iter: 5 policy_after_warmup: true " + policy),
                testing::HasSubstr("policy_after_warmup has no meaning for lr_policy"));
  }
}

}  // namespace
}  // namespace moka
