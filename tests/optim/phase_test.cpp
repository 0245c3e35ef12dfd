// States of nets and solvers that name the other phase, and tests of no batch: as in Caffe.
#include "optim/run/trainer.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

// Ones in TRAIN and twos in TEST, [4,3], summed through weights of 1: 36 and 72; ten times that in TRAIN.
std::string NetText(const std::string& state) {
  const auto data = [](const std::string& phase, int value) {
    return StrCat("layer { name: 'data' type: 'DummyData' top: 'data' include { phase: ", phase,
                  " } dummy_data_param { shape { dim: 4 dim: 3 } data_filler { type: 'constant' value: ", value,
                  " } } } ");
  };
  return StrCat("net_param { ", state, data("TRAIN", 1), data("TEST", 2),
                "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 3 "
                "bias_term: false weight_filler { type: 'constant' value: 1 } } } "
                "layer { name: 'ten' type: 'Power' bottom: 'ip' top: 'ip' include { phase: TRAIN } power_param { "
                "scale: 10 } } "
                "layer { name: 'sum' type: 'Reduction' bottom: 'ip' top: 'sum' loss_weight: 1 } } ",
                "base_lr: 0 lr_policy: 'fixed' max_iter: 1 random_seed: 1 ");
}

TrainResult PhaseTestRun(const std::string& state, const std::string& fields) {
  const SolverParameter solver = Solver(NetText(state) + fields);
  return Trainer(solver, ReadSolverNets(solver), {}).Run();
}

class PhaseTest : public FolderTest {};

TEST_F(PhaseTest, ATestIsOfThePhaseThatItsStateNames) {
  const std::string tests = "test_iter: 1 test_interval: 1 ";
  EXPECT_EQ(PhaseTestRun("", tests).best.value_or(0), 72);
  EXPECT_EQ(PhaseTestRun("", tests + "test_state { phase: TRAIN }").best.value_or(0), 360);
  EXPECT_EQ(PhaseTestRun("state { phase: TRAIN } ", tests).best.value_or(0), 360);
  EXPECT_EQ(PhaseTestRun("state { phase: TRAIN } ", tests + "test_state { phase: TEST }").best.value_or(0), 72);
}

TEST_F(PhaseTest, ATrainingIsOfThePhaseThatItsStateNames) {
  EXPECT_EQ(PhaseTestRun("", "").loss, 360);
  EXPECT_EQ(PhaseTestRun("", "train_state { phase: TEST }").loss, 72);
  EXPECT_EQ(PhaseTestRun("state { phase: TEST } ", "").loss, 72);
}

TEST_F(PhaseTest, ATestOfNoBatchIsBuiltAndNotRun) {
  const TrainResult none = PhaseTestRun("", "test_iter: 0 test_interval: 1");
  EXPECT_EQ(none.loss, 360);
  EXPECT_FALSE(none.best.has_value());
  EXPECT_THAT(ErrorOf([] { PhaseTestRun("", "test_iter: 0 test_interval: 1 best_metric: 'sum'"); }).text,
              testing::HasSubstr("best_metric \"sum\" is no output of the test net; its test_iter is 0"));
}

}  // namespace
}  // namespace moka
