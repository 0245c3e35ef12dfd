// Training steps in virtual time: what the plan predicts without noise, what the slowest of many ranks costs with it;
// machines and profiles as files.
#include "comm/simulate/scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "comm/simulate/model_profile.h"
#include "comm/simulate/topology.h"
#include "core/error.h"

namespace moka {
namespace {

ModelProfile Profile() {
  return ProfileOfText("# three layers\nconv1\t1000\t10\t20\nrelu\t0\t1\t2\nfc\t5000\t5\t10\n", "net.tsv");
}

CostTable Costs() {
  CostTable table;
  table.Add("ring", CostCurve({{0, 1e-3}, {1000, 2e-3}}));
  return table;
}

TEST(ModelProfile, GradientsComeFromTheLastLayerBack) {
  const FusionInput input = FusionInputOf(Profile(), 2);
  ASSERT_EQ(input.gradients.size(), 2U);
  EXPECT_EQ(input.gradients[0].name, "fc");
  EXPECT_EQ(input.gradients[0].bytes, 10000);
  EXPECT_DOUBLE_EQ(input.gradients[0].ready_s, 0.010);
  EXPECT_DOUBLE_EQ(input.gradients[1].ready_s, 0.032);
  EXPECT_DOUBLE_EQ(input.backward_s, 0.032);
  EXPECT_DOUBLE_EQ(input.other_s, 0.016);
}

TEST(ModelProfile, ScalesToAStepAndComesBackFromText) {
  ModelProfile profile = Profile();
  ScaleTo(profile, 0.480);
  EXPECT_DOUBLE_EQ(profile.forward_s() + profile.backward_s(), 0.480);
  EXPECT_DOUBLE_EQ(profile.layers[0].backward_s, 0.200);
  const ModelProfile back = ProfileOfText(ToText(profile), "again.tsv");
  ASSERT_EQ(back.layers.size(), 3U);
  EXPECT_EQ(back.elements(), 6000);
  EXPECT_NEAR(back.layers[2].forward_s, profile.layers[2].forward_s, 1e-6);
  SetTimesByWork(profile, {3, 0, 1}, 0.120);
  EXPECT_DOUBLE_EQ(profile.forward_s(), 0.040);
  EXPECT_DOUBLE_EQ(profile.layers[0].backward_s, 0.060);
  EXPECT_EQ(profile.layers[1].forward_s, 0);
}

TEST(ModelProfile, BadLinesAreErrorsWithTheirPlace) {
  for (const std::string bad :
       {"conv1\t10\t1", "conv1\tx\t1\t1", "conv1\t10\t-1\t1", "conv1\t10\tnan\t1", "\t1\t1\t1"}) {
    try {
      (void)ProfileOfText("# head\n" + bad + "\n", "net.tsv");
      ADD_FAILURE() << bad << " is no layer";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kBadData) << bad;
      EXPECT_EQ(error.place().line, 2) << bad;
    }
  }
  EXPECT_THROW((void)ProfileOfText("relu\t0\t1\t1\n", "net.tsv"), Error);
}

constexpr const char* kTopology =
    "name two nodes\ndevices_per_node 4\ninside_alpha_us 5\ninside_gb_s 10\nnetwork_alpha_us 20\n"
    "network_gb_s 12.5  # 100 Gb/s\nnetwork_efficiency 0.5\nadd_ns 0.25\ncall_us 8\n\ndevices 16 8\n";

TEST(Topology, ReadsAFile) {
  const Topology topology = TopologyOfText(kTopology, "two.topology");
  EXPECT_EQ(topology.name, "two nodes");
  EXPECT_EQ(topology.devices_per_node, 4);
  EXPECT_DOUBLE_EQ(topology.inside.alpha_s, 5e-6);
  EXPECT_DOUBLE_EQ(topology.inside.bytes_per_s, 10e9);
  EXPECT_DOUBLE_EQ(topology.network.alpha_s, 20e-6);
  EXPECT_DOUBLE_EQ(topology.network.bytes_per_s, 6.25e9);
  EXPECT_DOUBLE_EQ(topology.add_s, 0.25e-9);
  EXPECT_DOUBLE_EQ(topology.call_s, 8e-6);
  EXPECT_EQ(topology.devices, (std::vector<int>{8, 16}));
}

TEST(Topology, ErrorsNameLineAndNearestKey) {
  const auto error_of = [](const std::string& text) -> std::string {
    try {
      (void)TopologyOfText(text, "t");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      return error.what();
    }
    return {};
  };
  EXPECT_NE(
      error_of("name x\ninside_gbs 3\n").find("t:2: a topology has no \"inside_gbs\"; did you mean \"inside_gb_s\""),
      std::string::npos)
      << error_of("name x\ninside_gbs 3\n");
  EXPECT_NE(error_of("network_gb_s 0\n").find("must be a number of at least"), std::string::npos);
  EXPECT_NE(error_of("devices_per_node 1.5\n").find("whole number"), std::string::npos);
  EXPECT_NE(error_of("add_ns 1 2\n").find("has 2 values"), std::string::npos);
  EXPECT_NE(error_of("name\n").find("has no value"), std::string::npos);
  EXPECT_NE(error_of("add_ns 1\nadd_ns 1\n").find("t:2: add_ns stands twice"), std::string::npos);
  EXPECT_NE(error_of("name x\n").find("does not say devices_per_node"), std::string::npos);
}

TEST(Scaling, WithoutNoiseItIsWhatThePlanPredicts) {
  const FusionInput input = FusionInputOf(Profile(), 4);
  for (const FusionPlanner& planner : FusionPlanners()) {
    const FusionPlan plan = PlanFusion(planner.name, input, Costs(), 1 << 20);
    const ScalingResult result = SimulateSteps(input, plan, 1024, {});
    EXPECT_DOUBLE_EQ(result.step_s, 0.048);
    EXPECT_DOUBLE_EQ(result.compute_s, 0.048);
    EXPECT_NEAR(result.exposed_s, plan.exposed_s, 1e-15) << planner.name;
    EXPECT_NEAR(result.efficiency(), 0.048 / plan.iteration_s, 1e-12) << planner.name;
    EXPECT_EQ(result.slowest_rank, -1);
  }
}

TEST(Scaling, JitterCostsWhatTheSlowestOfAllRanksTakes) {
  const FusionInput input = FusionInputOf(Profile(), 4);
  const FusionPlan plan = PlanFusion("optimal", input, Costs(), 1);
  NoiseOptions noise;
  noise.jitter = 0.02;
  // The expected largest of n standard normal numbers.
  for (const auto& [ranks, largest] : {std::pair{2, 0.5642}, std::pair{16, 1.7660}, std::pair{2048, 3.4345}}) {
    noise.steps = ranks == 2048 ? 200 : 4000;
    const ScalingResult result = SimulateSteps(input, plan, ranks, noise);
    const double slow_down = std::exp(largest * noise.jitter) - 1;
    EXPECT_NEAR(result.compute_s / result.step_s - 1, slow_down, 0.05 * slow_down) << ranks;
    EXPECT_LT(result.slowest_part, 0.7) << "nobody is always last";
  }
  noise.steps = 50;
  const ScalingResult once = SimulateSteps(input, plan, 64, noise);
  EXPECT_EQ(SimulateSteps(input, plan, 64, noise).compute_s, once.compute_s);
  noise.seed = 2;
  EXPECT_NE(SimulateSteps(input, plan, 64, noise).compute_s, once.compute_s);
}

TEST(Scaling, NamesASlowRankAndCountsStalls) {
  const FusionInput input = FusionInputOf(Profile(), 4);
  const FusionPlan plan = PlanFusion("single", input, Costs(), 1);
  NoiseOptions noise;
  noise.jitter = 0.005;
  noise.slow = {{37, 1.25}};
  const ScalingResult slow = SimulateSteps(input, plan, 64, noise);
  EXPECT_EQ(slow.slowest_rank, 37);
  EXPECT_EQ(slow.slowest_part, 1);
  EXPECT_NEAR(slow.compute_s, 0.048 * 1.25, 0.048 * 0.004);
  NoiseOptions stalls;
  stalls.stall_probability = 0.01;
  stalls.stall_s = 0.1;
  stalls.steps = 3000;
  // Some rank of 64 stalls in 1 - 0.99^64 of the steps.
  EXPECT_NEAR(SimulateSteps(input, plan, 64, stalls).compute_s, 0.048 + 0.1 * (1 - std::pow(0.99, 64)), 0.003);
}

}  // namespace
}  // namespace moka
