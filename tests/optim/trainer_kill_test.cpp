// A training that writes a checkpoint every other iteration is killed with SIGKILL at random moments, again and again
// (also while it resumes), and must end with the very values of an unbroken one. The child is this program run anew.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "trainer_fixture.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "MOKA_KILL_TEST_FOLDER";

class TrainerKillTest : public TrainerTest {
 protected:
  static std::string KillSolver() {
    return BaseSolver() +
           "max_iter: 400 snapshot: 2 display: 0 test_interval: 50 type: \"Adam\" base_lr: 0.01 keep_last: 2";
  }
  // Starts, or goes on with, the run in a folder.
  static std::unique_ptr<Trainer> Continue(RunFolder& run) {
    TrainerOptions options;
    options.run = &run;
    options.resume = FindNewestValid(run.checkpoints());
    return Make(KillSolver(), options);
  }
  static pid_t Start(const fs::path& folder) {
    const pid_t child = fork();
    if (child != 0) return child;
    setenv(kFolder, folder.c_str(), 1);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execl("/proc/self/exe", "child", "--gtest_also_run_disabled_tests", "--gtest_filter=TrainerKillTest.DISABLED_Child",
          nullptr);
    _exit(127);
  }
};

TEST_F(TrainerKillTest, DISABLED_Child) {
  const char* folder = std::getenv(kFolder);
  if (folder == nullptr) GTEST_SKIP() << "run by KilledRunsEndBitIdentical";
  RunFolder run = RunFolder::Open(folder, {.name = "task"});
  Continue(run)->Run();
}

TEST_F(TrainerKillTest, KilledRunsEndBitIdentical) {
  const char* wanted = std::getenv("MOKA_KILLS");
  const int kills = wanted == nullptr ? 12 : std::atoi(wanted);
  const auto whole = Make(BaseSolver() + "max_iter: 400 display: 0 test_interval: 50 type: \"Adam\" base_lr: 0.01");
  whole->Run();
  const fs::path folder = NewRun().path();
  RandomStream random(11, 0);
  int landed = 0;
  int64_t reached = 0;
  for (int i = 0; i < kills; ++i) {
    const pid_t child = Start(folder);
    std::this_thread::sleep_for(std::chrono::microseconds(20000 + random.Below(400000)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    landed += WIFSIGNALED(status) ? 1 : 0;
    const std::optional<Checkpoint> newest = FindNewestValid(folder / "checkpoints");
    const int64_t now = newest ? newest->trainer.iteration : 0;
    ASSERT_GE(now, reached) << "a complete checkpoint was lost";
    reached = now;
    if (reached >= 398) {
      fs::remove_all(folder / "checkpoints");  // begin again
      reached = 0;
    }
  }
  EXPECT_GT(landed, kills / 2);
  RunFolder run = RunFolder::Open(folder, {.name = "task"});
  const auto last = Continue(run);
  EXPECT_EQ(last->Run().iteration, 400);
  EXPECT_EQ(Everything(*last), Everything(*whole));
}

}  // namespace
}  // namespace moka
