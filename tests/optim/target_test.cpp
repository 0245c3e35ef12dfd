// Targets of trainings: a run ends at its own or misses it, and what would rise to it where it should fall is refused.
#include "optim/run/trainer.h"
#include "trainer_fixture.h"

namespace moka {
namespace {

using TargetTest = TrainerTest;

TEST_F(TargetTest, ATargetEndsTheRunOrIsMissed) {
  const std::string solver = BaseSolver() + "max_iter: 300 test_interval: 5 target_metric: \"accuracy\" target_value: ";
  const TrainResult reached = Make(solver + "0.9")->Run();
  EXPECT_EQ(reached.end, TrainEnd::kTargetReached);
  EXPECT_LT(reached.iteration, 300);
  const TrainResult missed = Make(solver + "1.5|max_iter: 10")->Run();
  EXPECT_EQ(missed.end, TrainEnd::kTargetMissed);
  EXPECT_EQ(missed.exit_code(), 21);
}

TEST_F(TargetTest, ALossUnderAnotherNameIsRefused) {
  std::string named = TaskNet(16);
  const std::string top = "top: \"loss\"";
  named.replace(named.find(top), top.size(), "top: \"nll\"");
  const std::string solver = BaseSolver() + "target_metric: \"nll\" target_value: 0.1";
  const Caught caught = ErrorOf([&] { Make(solver, {}, Nets(1, named)); });
  EXPECT_EQ(caught.kind, ErrorKind::kConfig);
  EXPECT_THAT(caught.text, testing::HasSubstr("falls to its target only under a name with \"loss\" in it"));
}

}  // namespace
}  // namespace moka
