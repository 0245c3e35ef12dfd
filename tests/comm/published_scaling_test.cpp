// docs/scaling.md: the numbers that stand there are the simulator's, and lie in the bands written down before.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/simulate/model_profile.h"
#include "comm/simulate/scaling.h"
#include "comm/simulate/virtual_costs.h"
#include "comm/simulate/virtual_time.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

struct Scenario {
  std::string machine = "p40_100g";
  int devices = 0;
  std::string fusion;
  std::string algorithm;
  double step_ms = 294;
  int64_t element_bytes = 2;
  double jitter = 0;
};

// In percent.
double Efficiency(const Scenario& scenario) {
  const std::string root = MOKA_SOURCE_DIR "/tools/launch/";
  const std::string machine = root + "topologies/" + scenario.machine + ".topology";
  const Topology topology = TopologyOfText(ReadFile(machine), machine);
  ModelProfile profile = ProfileOfText(ReadFile(root + "profiles/resnet50.tsv"), "resnet50.tsv");
  ScaleTo(profile, scenario.step_ms * 1e-3);
  const FusionInput input = FusionInputOf(profile, scenario.element_bytes);
  const CostTable costs = VirtualCosts(topology, scenario.devices, scenario.algorithm, scenario.element_bytes);
  const FusionPlan plan = PlanFusion(scenario.fusion, input, costs, 1);
  NoiseOptions noise;
  noise.jitter = scenario.jitter;
  return 100 * SimulateSteps(input, plan, scenario.devices, noise).efficiency();
}

// In ms, of a float32 all-reduce.
double AllReduceMs(const char* machine, const char* algorithm, int devices, int64_t bytes) {
  const std::string file = StrCat(MOKA_SOURCE_DIR "/tools/launch/topologies/", machine, ".topology");
  const Topology topology = TopologyOfText(ReadFile(file), file);
  const AllReduceChoice choice = ChoiceOfAllReduce(algorithm, devices, topology.devices_per_node);
  return 1e3 * VirtualSchedule::Of(*choice.algorithm, choice.arrangement, topology).Seconds(bytes / 4, 4);
}

TEST(PublishedScaling, FourMinuteSystem) {
  const double unfused = Efficiency({.devices = 1024, .fusion = "none", .algorithm = "ring"});
  const double at_1024 = Efficiency({.devices = 1024, .fusion = "two", .algorithm = "hierarchical_ring:16"});
  EXPECT_NEAR(unfused, 10.10, 0.02);
  EXPECT_NEAR(at_1024, 98.47, 0.02);
  EXPECT_NEAR(at_1024 / unfused, 11, 2.2);  // A
  EXPECT_NEAR(at_1024, 99, 1);              // B
  Scenario at_2048{.devices = 2048, .fusion = "two", .algorithm = "hierarchical_ring:32"};
  EXPECT_NEAR(Efficiency(at_2048), 98.04, 0.02);
  EXPECT_NEAR(Efficiency(at_2048), 97, 1.5);  // C
  at_2048.step_ms = 147;
  at_2048.jitter = 0.023;
  EXPECT_NEAR(Efficiency(at_2048), 87.9, 2);  // D
}

TEST(PublishedScaling, DdlLiesBetweenNoneAndAllOfTheOverlap) {
  Scenario ddl{.machine = "p100_edr",
               .devices = 256,
               .fusion = "optimal",
               .algorithm = "torus:4x64",
               .step_ms = 213,
               .element_bytes = 4};
  EXPECT_NEAR(Efficiency(ddl), 98.43, 0.02);  // E: a miss, above 97
  ddl.fusion = "single";
  EXPECT_NEAR(Efficiency(ddl), 88.03, 0.02);
}

// E's miss is not the simulator's arithmetic: worked by hand from the constants of p100_edr.topology.
TEST(PublishedScaling, DdlsAllReduceIsTheFormula) {
  constexpr double kNetworkAlpha = 26.6e-6;
  constexpr double kInsideAlpha = 6.46e-6;
  const double start_ups = 8.4e-6 + 2 * 3 * kInsideAlpha + 2 * 63 * kNetworkAlpha;
  const std::string profile = MOKA_SOURCE_DIR "/tools/launch/profiles/resnet50.tsv";
  int64_t elements = 0;
  for (const ProfileLayer& layer : ProfileOfText(ReadFile(profile), profile).layers) elements += layer.elements;
  const auto n = static_cast<double>(elements);
  // Three of four parts inside the node, then a quarter of the message of each of 4 devices over one card.
  const double bytes_s = 2 * 0.75 * 4 * n / 20e9 + 2 * (63.0 / 64) * 4 * n / (12.5e9 * 0.92);
  const double adds_s = (0.75 + 63.0 / 64 / 4) * n * 0.016e-9;
  EXPECT_NEAR(AllReduceMs("p100_edr", "torus:4x64", 256, 4 * elements), 1e3 * (start_ups + bytes_s + adds_s), 1e-3);
  EXPECT_NEAR(1e3 * start_ups, 3.40, 0.005);
  EXPECT_NEAR(1e3 * bytes_s, 25.17, 0.01);
  // None of it hidden, and all but a last small bucket's.
  EXPECT_NEAR(AllReduceMs("p100_edr", "torus:4x64", 256, 4 * elements), 213 * (1 / 0.8803 - 1), 0.03);
  EXPECT_NEAR(1e3 * start_ups, 213 * (1 / 0.9843 - 1), 0.03);
  // The changes that would take it to 95 %, one quantity at a time: docs/scaling.md.
  Scenario ddl{.machine = "p100_edr",
               .devices = 256,
               .fusion = "optimal",
               .algorithm = "torus:4x64",
               .step_ms = 213,
               .element_bytes = 4,
               .jitter = 0.0125};
  EXPECT_NEAR(Efficiency(ddl), 95.08, 0.02);
  ddl.jitter = 0;
  ddl.step_ms = 60;
  EXPECT_NEAR(Efficiency(ddl), 94.43, 0.02);
  ddl = {.machine = "p100_edr",
         .devices = 256,
         .fusion = "single",
         .algorithm = "torus:4x64",
         .step_ms = 213,
         .element_bytes = 2};
  EXPECT_NEAR(Efficiency(ddl), 92.85, 0.02);
}

TEST(PublishedScaling, PlannersOnAFlatRing) {
  Scenario flat{.machine = "flat_10g", .devices = 256, .fusion = "optimal", .algorithm = "ring"};
  EXPECT_NEAR(Efficiency(flat), 97.6, 0.1);  // F
  flat.fusion = "greedy";
  EXPECT_NEAR(Efficiency(flat), 76.2, 0.1);
}

// docs/distributed.md, "Two trees".
TEST(PublishedScaling, TreesBesideRings) {
  struct Row {
    const char* machine;
    int devices;
    int64_t bytes;
    const char* tree;
    double tree_ms, ring_ms;
    const char* cheapest;
    double cheapest_ms;
  };
  constexpr int64_t kMiB = 1 << 20;
  for (const Row& row : {
           Row{"flat_10g", 64, kMiB / 16, "double_binary_tree:1x4", 0.708, 1.872, "halving_doubling", 0.276},
           Row{"flat_10g", 64, kMiB, "double_binary_tree:1x16", 3.71, 3.48, "halving_doubling", 1.89},
           Row{"flat_10g", 64, 256 * kMiB, "double_binary_tree:1x64", 588.3, 442.2, "halving_doubling", 440.6},
           Row{"flat_10g", 1024, kMiB / 16, "double_binary_tree:1x4", 1.04, 28.75, "halving_doubling", 0.389},
           Row{"flat_10g", 1024, kMiB, "double_binary_tree:1x16", 4.19, 30.39, "halving_doubling", 2.026},
           Row{"flat_10g", 1024, 256 * kMiB, "double_binary_tree:1x64", 616.3, 475.6, "halving_doubling", 447.2},
           Row{"p40_100g", 64, kMiB / 16, "double_binary_tree:8x4", 0.7175, 1.637, "recursive_doubling", 0.277},
           Row{"p40_100g", 64, kMiB, "double_binary_tree:8x4", 1.17, 1.807, "torus:8x2x4", 0.694},
           Row{"p40_100g", 64, 256 * kMiB, "double_binary_tree:8x64", 74.8, 48.3, "ring", 48.3},
           Row{"p40_100g", 1024, kMiB / 16, "double_binary_tree:8x4", 1.236, 26.2, "halving_doubling", 0.537},
           Row{"p40_100g", 1024, kMiB, "double_binary_tree:8x4", 1.935, 26.4, "two_level:8", 0.940},
           Row{"p40_100g", 1024, 256 * kMiB, "double_binary_tree:8x64", 79.1, 73.5, "ring", 73.5},
           Row{"p40_100g", 1016, 16 * kMiB, "double_binary_tree:8x16", 8.17, 28.95, "double_binary_tree:8x16", 8.17},
       }) {
    SCOPED_TRACE(StrCat(row.machine, " ", row.devices, " ", row.bytes));
    EXPECT_NEAR(AllReduceMs(row.machine, row.tree, row.devices, row.bytes), row.tree_ms, 5e-3 * row.tree_ms);
    EXPECT_NEAR(AllReduceMs(row.machine, "ring", row.devices, row.bytes), row.ring_ms, 5e-3 * row.ring_ms);
    EXPECT_NEAR(AllReduceMs(row.machine, row.cheapest, row.devices, row.bytes), row.cheapest_ms,
                5e-3 * row.cheapest_ms);
  }
}

TEST(PublishedScaling, TreesAreChosenWhereHostsAreNoProduct) {
  const std::string file = MOKA_SOURCE_DIR "/tools/launch/topologies/p40_100g.topology";
  const CostTable costs = VirtualCosts(TopologyOfText(ReadFile(file), file), 8 * 127, "auto", 4);
  std::set<std::string> chosen;
  for (int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 2) chosen.emplace(costs.Cheapest(bytes).algorithm);
  EXPECT_TRUE(chosen.contains("double_binary_tree:8x16")) << Join(std::vector(chosen.begin(), chosen.end()), " ");
}

TEST(PublishedScaling, OwnChoiceFromEightTo16384Devices) {
  double before = 100;
  for (int devices = 8; devices <= 16384; devices *= 2) {
    const double now = Efficiency({.devices = devices, .fusion = "optimal", .algorithm = "auto"});
    EXPECT_GT(now, 99.8) << devices;
    EXPECT_LE(now, before) << devices;
    before = now;
  }
}

}  // namespace
}  // namespace moka
