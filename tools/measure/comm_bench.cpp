// Values whose sums are exact in every wire type, so that each timed all-reduce is checked, too; bandwidths are
// nccl-tests' "algorithm" and "bus".
#include "tools/measure/comm_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "comm/schedule/runner.h"
#include "core/median.h"

namespace moka {
namespace {

// Sums of these are whole numbers that every wire type holds up to 16 ranks; for more the smallest step is taken.
float ValueOf(int rank, int64_t i, int ranks) { return static_cast<float>((rank + i) % (ranks > 16 ? 2 : 8)); }

float ExpectedSumOf(int64_t i, int ranks) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += ValueOf(rank, i, ranks);
  return sum;
}

}  // namespace

CommBenchTable BenchAllReduce(Communicator& world, const AllReduceChoice& choice, const CommBenchOptions& options) {
  CommBenchTable table{choice.name, {}, {}};
  Runner runner(world.transport(), choice.algorithm->make(choice.arrangement, world.rank()), options.wire);
  std::vector<CostPoint> points;
  int64_t last = -1;
  for (double size = static_cast<double>(options.from_bytes); size <= static_cast<double>(options.to_bytes);
       size *= options.step_factor) {
    const int64_t count = std::max<int64_t>(std::llround(size) / 4, 1);
    if (count == last) continue;
    last = count;
    std::vector<float> values(static_cast<size_t>(count));
    const Message message{std::span<float>(values)};
    std::vector<double> times;
    double wrong = 0;
    for (int i = -options.warmup; i < options.iterations; ++i) {
      for (int64_t k = 0; k < count; ++k) values[static_cast<size_t>(k)] = ValueOf(world.rank(), k, world.size());
      world.Barrier();
      const auto begin = std::chrono::steady_clock::now();
      runner.Run(message, world.patience());
      const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
      if (i >= 0) times.push_back(time.count());
      if (!options.checks || i != options.iterations - 1) continue;
      for (int64_t k = 0; k < count; ++k)
        wrong += values[static_cast<size_t>(k)] == ExpectedSumOf(k, world.size()) ? 0 : 1;
    }
    // Each iteration lasts as long as on its slowest rank.
    world.Max(times);
    std::vector<double> wrong_of_all = {wrong};
    world.Sum(wrong_of_all);
    CommBenchRow row{.bytes = count * 4, .us = Median(times)};
    row.algbw_gb_s = static_cast<double>(row.bytes) / row.us * 1e-3;
    row.busbw_gb_s = row.algbw_gb_s * 2 * (world.size() - 1) / world.size();
    row.wrong = options.checks ? static_cast<int64_t>(wrong_of_all[0]) : -1;
    table.rows.push_back(row);
    points.push_back({row.bytes, row.us * 1e-6});
  }
  table.line = CostCurve(points).Fit();
  return table;
}

}  // namespace moka
