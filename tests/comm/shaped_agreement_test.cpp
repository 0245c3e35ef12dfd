// The simulator against real runs: the same schedules, by ranks that are threads over links made slow on purpose, and
// in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/schedule/runner.h"
#include "comm/simulate/virtual_time.h"
#include "comm/transport/shaped_transport.h"
#include "core/text.h"
#include "tests/comm/world.h"
#include "tests/sanitized.h"

namespace moka {
namespace {

constexpr std::chrono::milliseconds kLatency(2);
constexpr double kBytesPerSecond = 20e6;
constexpr int kMostRuns = kIsSanitized ? 1 : 20;  // a sanitizer's own time is in all of them

double MeasuredSeconds(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement, int64_t elements) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(arrangement.ranks);
  for (auto& transport : world) {
    transport = std::make_unique<ShapedTransport>(
        std::move(transport), LinkShape{.latency = kLatency, .bytes_per_s = kBytesPerSecond, .host_of = {}});
  }
  const auto begin = std::chrono::steady_clock::now();
  RunRanks(world, [&](Transport& transport) {
    std::vector<float> values(static_cast<size_t>(elements), 1.0F);
    Runner runner(transport, algorithm.make(arrangement, transport.rank()), Wire::kFloat32);
    runner.Run(Message(values), std::chrono::seconds(20));
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(VirtualTime, AgreesWithRealRunsOverSlowLinks) {
  Topology topology;
  topology.network = {std::chrono::duration<double>(kLatency).count(), kBytesPerSecond};
  topology.inside = {0, 1e12};
  for (const char* name : {"ring", "halving_doubling", "recursive_doubling", "torus"}) {
    const Arrangement arrangement{.ranks = 4, .group = 2, .dimensions = {2, 2}};
    const AllReduceAlgorithm& algorithm = FindAllReduce(name);
    const VirtualSchedule schedule = VirtualSchedule::Of(algorithm, arrangement, topology);
    for (const int64_t elements : {1'000, 50'000, 400'000}) {
      const double predicted = schedule.Seconds(elements, 4);
      // Other work on the machine only adds: the least of as many runs as it takes.
      const double bound = 1.1 * predicted + 1e-3;
      double measured = std::numeric_limits<double>::infinity();
      for (int run = 0; run < kMostRuns && measured > bound; ++run) {
        measured = std::min(measured, MeasuredSeconds(algorithm, arrangement, elements));
      }
      EXPECT_GT(measured, 0.97 * predicted) << name << " of " << elements;
      if (!kIsSanitized) {
        EXPECT_LT(measured, bound) << name << " of " << elements;
      }
    }
  }
}

}  // namespace
}  // namespace moka
