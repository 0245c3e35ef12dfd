// moka simulate as a person uses it: tables, traces, measured times and mistakes.
#include <algorithm>
#include <map>

#include "tests/tools/cli_fixture.h"

namespace moka {
namespace {

std::string File(const std::string& path) { return StrCat("'", MOKA_SOURCE_DIR, "/", path, "'"); }
const std::string kMachine = " --topology " + File("tools/launch/topologies/p40_100g.topology");
const std::string kNet = "simulate " + File("tools/launch/profiles/resnet50.tsv");

TEST_F(CliTest, SimulateComparesPlannersAndNamesASlowRank) {
  const Outcome outcome =
      Moka(kNet + kMachine + " --devices 8,1024 --fusion none,optimal --algorithm ring --wire float16 --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json.at("learned_values"), 25557032);
  ASSERT_EQ(json.at("rows").size(), 4U);
  const auto efficiency = [&](size_t i) { return json.at("rows")[i].at("efficiency").get<double>(); };
  EXPECT_LT(efficiency(2), efficiency(3) - 0.8) << "107 start-ups of a ring cost more than one";
  EXPECT_LT(efficiency(2), efficiency(0)) << "a longer ring has more steps";
  EXPECT_GT(efficiency(1), 0.95);
  EXPECT_EQ(json.at("rows")[2].at("buckets"), 107);
  EXPECT_EQ(json.at("rows")[0].at("slowest_rank"), -1);
  const Outcome slow = Moka(kNet + kMachine + " --devices 64 --algorithm ring --slow 13:1.5 --steps 5");
  ASSERT_EQ(slow.code, 0) << slow.err;
  EXPECT_NE(slow.out.find("13 (100 %)"), std::string::npos) << slow.out;
  const Outcome beyond = Moka(kNet + kMachine + " --devices 8 --slow 8:1.5");
  EXPECT_EQ(beyond.code, 64);
  EXPECT_NE(beyond.err.find("there is no rank 8"), std::string::npos) << beyond.err;
}

TEST_F(CliTest, SimulateTracesOneIteration) {
  ASSERT_EQ(Moka(kNet + kMachine + " --devices 64 --algorithm ring --trace one.json").code, 0);
  const Json trace = Json::parse(ReadFile(folder_ / "one.json"));
  std::map<std::string, int64_t> spent;
  int64_t end = 0;
  for (const Json& span : trace.at("traceEvents")) {
    if (span.at("ph") != "X") continue;  // names of lanes
    spent[span.at("cat").get<std::string>()] += span.at("dur").get<int64_t>();
    end = std::max(end, span.at("ts").get<int64_t>() + span.at("dur").get<int64_t>());
  }
  EXPECT_NEAR(static_cast<double>(spent["forward"]), 98000, 200);
  EXPECT_NEAR(static_cast<double>(spent["backward"]), 196000, 200);
  EXPECT_GT(spent["all-reduce"], 1000);
  EXPECT_GT(end, 294000);
}

TEST_F(CliTest, SimulateTakesMeasuredTimes) {
  const std::string lenet = File("models/lenet");
  const Outcome times = Moka(StrCat("time ", lenet, " --iterations 1 --warmup 0 --json"));
  ASSERT_EQ(times.code, 0) << times.err;
  WriteFileAtomically(folder_ / "times.json", times.out);
  const Outcome profile = Moka(StrCat("simulate ", lenet, " --times times.json --profile"));
  ASSERT_EQ(profile.code, 0) << profile.err;
  EXPECT_NE(profile.out.find("conv1\t520\t"), std::string::npos) << profile.out;
  EXPECT_NE(profile.out.find("ip2\t5010\t"), std::string::npos) << profile.out;
  const Outcome unknown = Moka(StrCat("simulate ", lenet, kMachine));
  EXPECT_EQ(unknown.code, 64);
  EXPECT_NE(unknown.err.find("--step-ms"), std::string::npos) << unknown.err;
}

TEST_F(CliTest, SimulateExplainsMistakes) {
  EXPECT_EQ(Moka(kNet).code, 64);
  const Outcome planner = Moka(kNet + kMachine + " --devices 8 --algorithm ring --fusion gredy");
  EXPECT_EQ(planner.code, 64);
  EXPECT_NE(planner.err.find("--fusion: "), std::string::npos) << planner.err;
  EXPECT_NE(planner.err.find("did you mean \"greedy\"?"), std::string::npos) << planner.err;
  const Outcome algorithm = Moka(kNet + kMachine + " --devices 8 --algorithm rnig");
  EXPECT_EQ(algorithm.code, 64);
  EXPECT_NE(algorithm.err.find("--algorithm: "), std::string::npos) << algorithm.err;
  EXPECT_NE(algorithm.err.find("did you mean \"ring\"?"), std::string::npos) << algorithm.err;
  const Outcome number = Moka(kNet + kMachine + " --jitter much");
  EXPECT_EQ(number.code, 64);
  EXPECT_NE(number.err.find("--jitter wants a number from 0 to 1"), std::string::npos) << number.err;
}

}  // namespace
}  // namespace moka
