// moka launch as a person uses it, with a script in mpirun's place that does what each attempt is told to do.
#include <fstream>

#include "tests/tools/cli_fixture.h"
#include "tests/tools/launch/facts.h"

namespace moka {
namespace {

class LaunchTest : public CliTest {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Script("mpirun",
           "[ \"$1\" = --version ] && { echo 'mpirun (Open MPI) 4.1.4'; exit 0; }\n"
           "echo \"$*\" >> calls\n"
           "sed -n 's/.*--hostfile \\([^ ]*\\).*/\\1/p' calls | tail -n 1 | xargs cat >> hostfiles 2>/dev/null\n"
           "[ -e step$(wc -l < calls) ] || exit 0\n"
           ". ./step$(wc -l < calls)\n");
  }

  static void Script(const std::string& name, const std::string& body) {
    std::ofstream(folder_ / name) << "#!/bin/bash\n" << body;
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  // Writes what the stub does when it is started the n-th time.
  static void Step(int n, const std::string& body) { std::ofstream(folder_ / StrCat("step", n)) << body << "\n"; }

  // A run's folder as a training leaves it: with a checkpoint, and the states of four ranks of which rank 2 fell
  // silent.
  static std::string MakeRun() {
    return R"sh(last=$(($(date +%s) + 3))
mkdir -p runs/lenet-0001/{config,checkpoints,ranks}
echo '{}' > runs/lenet-0001/run.json
touch runs/lenet-0001/checkpoints/iter_0000010.sha256
for rank in 0 1 2 3; do
  now=$last; [ $rank = 2 ] && now=$((last - 3))
  echo "{\"rank\":$rank,\"host\":\"localhost\",\"pid\":1,\"iteration\":9,\"collective\":40,\"updated_s\":$now}" \
    > runs/lenet-0001/ranks/rank-$rank.json
done
)sh";
  }

  static Outcome Launch(const std::string& arguments) { return Moka("launch --mpirun ./mpirun " + arguments); }
  static std::vector<std::string> Calls() {
    std::error_code code;
    if (!fs::exists(folder_ / "calls", code)) return {};
    return Split(Trim(ReadFile(folder_ / "calls")), '\n');
  }
  static std::string Train() { return StrCat("-- train '", MOKA_SOURCE_DIR, "/models/lenet' max_iter=5 "); }
};

TEST_F(LaunchTest, RunsTheVerbUnderMpirun) {
  const Outcome outcome = Launch("-n 3 -- version --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NE(Calls()[0].find("-n 3 "), std::string::npos);
  EXPECT_TRUE(Calls()[0].ends_with("moka version --json")) << Calls()[0];
  for (const char* line : {"ok      launcher", "ok      hosts", "ok      build", "shared memory", "network"})
    EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
}

TEST_F(LaunchTest, ADryRunPrintsTheCommandAndStartsNothing) {
  const Outcome outcome = Launch("-n 2 --dry-run " + Train());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("./mpirun -n 2 ")) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("models/lenet max_iter=5\n")) << outcome.out;
  const Outcome json = Launch("-n 2 --dry-run --json " + Train());
  const Json plan = Json::parse(json.out);
  EXPECT_EQ(plan.at("ranks"), Json({"localhost", "localhost"}));
  EXPECT_EQ(plan.at("checks").size(), 7U);
  EXPECT_TRUE(Calls().empty());
}

TEST_F(LaunchTest, ALostRankIsNamedAndTheRunGoesOnFromItsCheckpoint) {
  Step(1, MakeRun() + "exit 76");
  const Outcome outcome = Launch("-n 4 --restarts 2 " + Train() + "--kernels=listed");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Calls().size(), 2U);
  EXPECT_TRUE(Calls()[1].ends_with("moka train --resume=runs/lenet-0001 --kernels=listed")) << Calls()[1];
  EXPECT_NE(outcome.err.find("rank 2 on localhost (pid 1) fell silent 3.0 s"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("restart 1 of 2 with 4 ranks, from the newest checkpoint of runs/lenet-0001"),
            std::string::npos)
      << outcome.err;
}

TEST_F(LaunchTest, WithoutARunItBeginsAgain) {
  Step(1, "exit 137");
  const Outcome outcome = Launch("-n 4 --restarts 1 " + Train());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Calls().size(), 2U);
  EXPECT_EQ(Calls()[0], Calls()[1]);
  EXPECT_NE(outcome.err.find("a rank was ended by signal 9 (Killed)"), std::string::npos) << outcome.err;
}

TEST_F(LaunchTest, AfterTheLastRestartTheCodeIsTheJobs) {
  for (int i = 1; i <= 3; ++i) Step(i, MakeRun() + "exit 76");
  const Outcome outcome = Launch("-n 4 --restarts 2 " + Train());
  EXPECT_EQ(outcome.code, 76);
  EXPECT_EQ(Calls().size(), 3U);
  EXPECT_NE(outcome.err.find("to go on: moka launch -n 4 -- train --resume=runs/lenet-0001"), std::string::npos)
      << outcome.err;
}

TEST_F(LaunchTest, WhatRanksExplainIsNotTriedAgain) {
  Step(1, "exit 78");
  EXPECT_EQ(Launch("-n 2 --restarts 5 " + Train()).code, 78);
  EXPECT_EQ(Calls().size(), 1U);
}

// Given two ranks, mpirun tells the code of the one that ended first; at times that is the one that the other left
// alone.
TEST_F(LaunchTest, WhatOneRankExplainsIsNotTriedAgainWhenAnotherEndsFirst) {
  Step(1, MakeRun() +
              "sed -i 's/\"rank\":1/\"rank\":1,\"state\":\"failed\",\"exit_code\":65/' runs/lenet-0001/ranks/*.json; "
              "exit 76");
  const Outcome outcome = Launch("-n 4 --restarts 5 " + Train());
  EXPECT_EQ(outcome.code, 65) << outcome.err;
  EXPECT_EQ(Calls().size(), 1U);
  EXPECT_NE(outcome.err.find("an error that a restart would meet again (exit code 65)"), std::string::npos)
      << outcome.err;
}

TEST_F(LaunchTest, ShrinkingGivesUpASlotOfTheCulprit) {
  Step(1, MakeRun() + "exit 76");
  Step(2, "exit 76");
  const Outcome outcome = Launch("--preflight=off --hosts localhost:2,127.0.0.1:2 --shrink --restarts 2 " + Train());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Calls().size(), 3U);
  EXPECT_TRUE(Calls()[1].starts_with("-n 3 ") && Calls()[2].starts_with("-n 2 ")) << Calls()[1] << "\n" << Calls()[2];
  EXPECT_EQ(ReadFile(folder_ / "hostfiles"),
            "localhost slots=2\n127.0.0.1 slots=2\nlocalhost slots=1\n127.0.0.1 slots=2\n"
            "localhost slots=1\n127.0.0.1 slots=1\n");
}

TEST_F(LaunchTest, ShrinkingLeavesRanksThatTheBatchDividesAmong) {
  Step(1, MakeRun() + "sed -i 's/\"rank\"/\"batch\":16,\"rank\"/' runs/lenet-0001/ranks/*.json; exit 137");
  const Outcome outcome = Launch("--preflight=off --hosts localhost:2,127.0.0.1:2 --shrink --restarts 1 " + Train());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(Calls().size(), 2U);
  EXPECT_TRUE(Calls()[1].starts_with("-n 2 ")) << Calls()[1];
  EXPECT_EQ(ReadFile(folder_ / "hostfiles"),
            "localhost slots=2\n127.0.0.1 slots=2\nlocalhost slots=1\n127.0.0.1 slots=1\n");
}

TEST_F(LaunchTest, TheFirstSignalAsksRanksForACheckpoint) {
  Step(1, "trap 'echo got USR1 > signals; exit 75' USR1; touch ready; for i in $(seq 200); do sleep 0.05; done");
  const Outcome outcome = MokaStopped("launch --mpirun ./mpirun -n 2 --restarts 3 -- version", "[ -e ready ]");
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_EQ(ReadFile(folder_ / "signals"), "got USR1\n");
  EXPECT_EQ(Calls().size(), 1U) << "a job that was asked to stop is not started again";
}

TEST_F(LaunchTest, AHostOfAnotherBuildStartsNothing) {
  std::ofstream(folder_ / "b.json") << HostFactsLine(SoundHost("b", 2)) << "\n";
  Script("ssh", "echo \"$*\" >> asked; echo 'Welcome to b'; cat b.json\n");
  const Outcome outcome = Launch("--ssh ./ssh --hosts localhost:1,b:1 " + Train());
  EXPECT_EQ(outcome.code, 69) << outcome.err;
  EXPECT_NE(outcome.err.find("FAILED  build         b: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("nothing was started"), std::string::npos) << outcome.err;
  EXPECT_NE(ReadFile(folder_ / "asked").find("-o BatchMode=yes -o ConnectTimeout=10 b "), std::string::npos);
  EXPECT_TRUE(Calls().empty());
}

TEST_F(LaunchTest, AHostThatRefusesSshIsNamed) {
  Script("ssh", "echo 'ssh: connect to host b port 22: Connection refused' >&2; exit 255\n");
  const Outcome outcome = Launch("--ssh ./ssh --hosts localhost:1,b:1 " + Train());
  EXPECT_EQ(outcome.code, 69) << outcome.err;
  EXPECT_NE(outcome.err.find("b does not answer: ssh: connect to host b port 22: Connection refused"),
            std::string::npos)
      << outcome.err;
}

TEST_F(LaunchTest, ARunThatASchedulerStartsAgainGoesOnWithItsOwnConfiguration) {
  const std::string words = Train() + "--run=lenet --resume=auto";
  fs::create_directories(folder_ / "runs/lenet-0001/checkpoints");
  fs::create_directories(folder_ / "runs/lenet-0001/config");
  std::ofstream(folder_ / "runs/lenet-0001/status.json") << R"({"state":"interrupted"})";
  std::ofstream(folder_ / "runs/lenet-0001/config/overrides.txt") << "max_iter=5\n";
  EXPECT_EQ(Launch("-n 1 " + words).code, 0);
  EXPECT_TRUE(Calls()[0].ends_with("runs/lenet-0001")) << Calls()[0];
  EXPECT_EQ(Calls()[0].find("max_iter"), std::string::npos);
  EXPECT_EQ(Launch("-n 1 " + words + " base_lr=0.1").code, 0);
  EXPECT_NE(Calls()[1].find("max_iter=5 --run=lenet --resume=auto base_lr=0.1"), std::string::npos) << Calls()[1];
}

TEST_F(LaunchTest, WritesASchedulersFileAndStartsNothing) {
  EXPECT_EQ(Moka("launch -n 4 --nodes 2 --sbatch job.sh " + Train()).code, 0);
  EXPECT_EQ(RunShell(StrCat("bash -n '", (folder_ / "job.sh").string(), "'"), folder_).code, 0);
  EXPECT_EQ(Moka("launch -n 4 --nodes 3 --sbatch job3.sh " + Train()).code, 64);
  EXPECT_FALSE(fs::exists(folder_ / "job3.sh"));
  EXPECT_TRUE(Calls().empty());
  const Outcome useless = Launch("-n 4 --nodes 2 --sbatch job4.sh " + Train());
  EXPECT_EQ(useless.code, 64) << "the job finds its launcher itself";
  EXPECT_NE(useless.err.find("--mpirun has no use here"), std::string::npos) << useless.err;
}

TEST_F(LaunchTest, RealRanksRunUnderOpenMpi) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun here";
  const Outcome outcome = Moka("launch -n 2 -- version");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const size_t first = outcome.out.find("moka 0.");
  ASSERT_NE(first, std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("moka 0.", first + 1), std::string::npos) << "two ranks, two answers";
}

}  // namespace
}  // namespace moka
