// Each check before a launch, on made-up facts.
#include "tools/launch/preflight.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/tools/launch/facts.h"

namespace moka {
namespace {

const std::vector<HostSlots> kTwoEach = {{"a", 2}, {"b", 2}};

TEST(PreflightTest, SoundHostsPassEveryCheck) {
  const std::vector<HostFacts> facts = TwoSoundHosts();
  EXPECT_EQ(CheckLine(CheckHosts(facts, "ssh")), "ok      hosts         2 hosts: a, b");
  EXPECT_EQ(CheckLine(CheckBuild(facts, facts[0].build, "/m")), "ok      build         00ff on every host");
  EXPECT_EQ(CheckLine(CheckSharedMemory(facts, kTwoEach)), "ok      shared memory 4.00 GiB free in /dev/shm of a");
  EXPECT_EQ(CheckLine(CheckClocks(facts)), "ok      clocks        within 0.0 s of this host's");
  EXPECT_EQ(CheckLine(CheckDevices(facts, kTwoEach, false)),
            "ok      devices       a: 2 ranks on 8 CPUs; b: 2 ranks on 8 CPUs");
  EXPECT_EQ(CheckLine(CheckNetwork(facts, ChooseNetwork(facts, ""))),
            "ok      network       10.0.0.0/24 (eth0 1 Gb/s): the one network that every host is in");
}

TEST(PreflightTest, AHostThatDoesNotAnswerIsNamedWithTheCommandToTry) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[1].missing = "Connection refused";
  EXPECT_EQ(CheckLine(CheckHosts(facts, "ssh")),
            "FAILED  hosts         b does not answer: Connection refused; this must work without a password: "
            "ssh -o BatchMode=yes b true");
  EXPECT_EQ(CheckBuild(facts, facts[0].build, "/m").verdict, Verdict::kOk) << "what is not known is not judged";
}

TEST(PreflightTest, AnotherBuildIsNamedByWhatDiffers) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[1].build = R"({"moka":"0.1.0","oneDNN":"3.1.0","build":"00ff"})";
  const Check check = CheckBuild(facts, facts[0].build, "/opt/moka");
  EXPECT_EQ(check.verdict, Verdict::kFailed);
  EXPECT_EQ(check.text, "b: oneDNN is \"2.6.3\" here and \"3.1.0\" there");
  EXPECT_NE(check.remedy.find("/opt/moka"), std::string::npos);
  facts[1].build = "no JSON";
  EXPECT_EQ(CheckBuild(facts, facts[0].build, "/opt/moka").text, "b: does not say its build");
}

TEST(PreflightTest, DockersSharedMemoryIsTooSmallForTwoRanks) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[1].shm_bytes = facts[1].shm_free_bytes = int64_t{64} << 20;
  const Check check = CheckSharedMemory(facts, kTwoEach);
  EXPECT_EQ(check.verdict, Verdict::kFailed);
  EXPECT_EQ(check.text, "b: /dev/shm has 64.0 MiB free of 64.0 MiB, and 2 ranks may take 128.0 MiB");
  EXPECT_NE(check.remedy.find("mount -o remount,size=256M /dev/shm; in Docker: --shm-size"), std::string::npos);
  EXPECT_EQ(CheckSharedMemory(facts, {{"a", 2}, {"b", 1}}).verdict, Verdict::kOk) << "one rank shares with none";
  EXPECT_EQ(CheckSharedMemory(facts, {{"a", 1}, {"b", 1}}).text, "not used: one rank a host");
}

TEST(PreflightTest, ClocksAreJudgedByWhatIsKnownOfThem) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[1].clock_ahead_s = -7.25;
  const Check check = CheckClocks(facts);
  EXPECT_EQ(check.verdict, Verdict::kFailed);
  EXPECT_EQ(check.text, "b is 7.2 s behind (known within 0.2 s, limit 1.0 s)");
  facts[1].clock_ahead_s = 1.15;  // it may be less than the limit
  EXPECT_EQ(CheckClocks(facts).verdict, Verdict::kOk);
  facts[1].clock_ahead_s = 1.25;
  EXPECT_EQ(CheckClocks(facts).verdict, Verdict::kFailed);
}

TEST(PreflightTest, MoreRanksThanCpusAreNotedAndMoreThanGpusRefused) {
  std::vector<HostFacts> facts = {SoundHost("a", 1)};
  facts[0].cpus = 2;
  const Check crowded = CheckDevices(facts, {{"a", 4}}, false);
  EXPECT_EQ(crowded.verdict, Verdict::kNote);
  EXPECT_EQ(crowded.text, "a: 4 ranks on 2 CPUs");
  EXPECT_EQ(CheckDevices(facts, {{"a", 2}}, false).verdict, Verdict::kOk);
  EXPECT_EQ(CheckDevices(facts, {{"a", 2}}, true).verdict, Verdict::kFailed);
  facts[0].gpus = 1;
  const Check few = CheckDevices(facts, {{"a", 2}}, true);
  EXPECT_EQ(CheckLine(few), "FAILED  devices       a: 2 ranks on 2 CPUs and 1 GPU; give it 1 slots, a rank a GPU");
  EXPECT_EQ(CheckDevices(facts, {{"a", 1}}, true).verdict, Verdict::kOk);
}

TEST(PreflightTest, OneHostNeedsNoNetwork) {
  const std::vector<HostFacts> facts = {SoundHost("a", 1)};
  const NetworkChoice choice = ChooseNetwork(facts, "");
  EXPECT_TRUE(choice.network.empty());
  EXPECT_EQ(CheckNetwork(facts, choice).verdict, Verdict::kOk);
}

TEST(PreflightTest, TheFastestCommonNetworkIsChosen) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[0].interfaces.push_back({"ib0", "10.1.0.1", 16, false, 100000});
  facts[1].interfaces.push_back({"ib1", "10.1.7.2", 16, false, 100000});
  const NetworkChoice choice = ChooseNetwork(facts, "");
  EXPECT_EQ(choice.network, "10.1.0.0/16");
  EXPECT_EQ(choice.why, "10.1.0.0/16 (ib0, ib1 100 Gb/s): the fastest of 2 networks that every host is in");
  EXPECT_EQ(choice.addresses, (std::vector<std::string>{"10.1.0.1", "10.1.7.2"}));
  EXPECT_EQ(ChooseNetwork(facts, "10.0.0.0/24").why, "10.0.0.0/24 (eth0 1 Gb/s): as asked");
  facts[1].interfaces.back().mbits_per_s = 0;  // a link of unknown speed is no reason to leave a known one
  EXPECT_EQ(ChooseNetwork(facts, "").network, "10.0.0.0/24");
}

TEST(PreflightTest, HostsWithoutACommonNetworkAreShown) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[1].interfaces.back().address = "192.168.1.5";
  const Check check = CheckNetwork(facts, ChooseNetwork(facts, ""));
  EXPECT_EQ(check.verdict, Verdict::kFailed);
  EXPECT_NE(check.text.find("a: docker0 172.17.0.1/16, eth0 10.0.0.1/24 1 Gb/s; b: docker0"), std::string::npos)
      << check.text;
  EXPECT_NE(CheckNetwork(facts, ChooseNetwork(facts, "10.9.0.0/16")).text.find("10.9.0.0/16 has not every host"),
            std::string::npos);
}

TEST(PreflightTest, APairThatDoesNotReachEachOtherFails) {
  std::vector<HostFacts> facts = TwoSoundHosts();
  facts[1].unreached = {"10.0.0.1"};
  const Check check = CheckNetwork(facts, ChooseNetwork(facts, ""));
  EXPECT_EQ(check.verdict, Verdict::kFailed);
  EXPECT_EQ(check.text, "10.0.0.0/24: b does not reach 10.0.0.1");
}

TEST(PreflightTest, TheLauncherMustBeOpenMpiOrSlurm) {
  EXPECT_EQ(CheckLauncher("mpirun", 0, "mpirun (Open MPI) 4.1.4\n\nReport bugs").text, "mpirun (Open MPI) 4.1.4");
  EXPECT_EQ(CheckLauncher("srun", 0, "slurm-wlm 22.05.8").verdict, Verdict::kOk);
  EXPECT_EQ(CheckLauncher("mpirun", 0, "HYDRA build details:").verdict, Verdict::kFailed);
  EXPECT_EQ(CheckLauncher("mpirun", 127, "").text, "mpirun does not start");
}

TEST(HostFactsTest, ALineOfFactsReadsBackEqual) {
  HostFacts facts = SoundHost("a", 1);
  facts.gpus = 3;
  facts.time_s = 1234.5;
  facts.unreached = {"10.0.0.9"};
  EXPECT_EQ(HostFactsLine(ParseHostFacts(HostFactsLine(facts))), HostFactsLine(facts));
  EXPECT_THROW(ParseHostFacts("Welcome to node a"), Error);
  EXPECT_THROW(ParseHostFacts("{}"), Error);
  // A number that is no whole one is refused, as it would become another.
  const std::string line = HostFactsLine(facts);
  const size_t at = line.find("\"cpus\":") + 7;
  for (const char* number : {"1e30", "2.5", "99999999999", "-1e300", "true", "\"8\""}) {
    std::string wrong = line;
    wrong.replace(at, line.find_first_of(",}", at) - at, number);
    EXPECT_THROW(ParseHostFacts(wrong), Error) << number;
  }
}

TEST(HostFactsTest, ThisHostTellsOfItself) {
  const HostFacts facts = ReadHostFacts({"127.0.0.1", "no address"});
  EXPECT_GT(facts.cpus, 0);
  EXPECT_GT(facts.time_s, 1.7e9);
  EXPECT_FALSE(facts.interfaces.empty());
  EXPECT_NE(facts.build.find("\"build\":\""), std::string::npos);
  EXPECT_EQ(facts.unreached, std::vector<std::string>{"no address"});
}

TEST(HostFactsTest, AnInterfaceTellsItsNetwork) {
  EXPECT_EQ(NetworkOf({"eth0", "192.168.77.130", 25, false, 0}), "192.168.77.128/25");
  EXPECT_EQ(NetworkOf({"eth0", "10.1.2.3", 0, false, 0}), "0.0.0.0/0");
  EXPECT_EQ(NetworkOf({"eth0", "10.1.2.3", 32, false, 0}), "10.1.2.3/32");
  EXPECT_EQ(NetworkOf({"eth0", "fe80::1", 64, false, 0}), "");
}

}  // namespace
}  // namespace moka
