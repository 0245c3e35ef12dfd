// Compressed gradients among the others of an exchange.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/exchange/gradient_exchange.h"
#include "tests/comm/random_gradient.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr size_t kCount = kGradientCount;

// Dense and compressed gradients in one exchange, under two plans: the same numbers; before start_iter plain sums.
TEST(Compression, GoesThroughTheExchange) {
  constexpr int kRanks = 3;
  const auto run = [&](const std::vector<int>& ends) {
    std::vector<Floats> results(kRanks);
    RunRanks(kRanks, [&, world = std::make_shared<std::vector<std::unique_ptr<Transport>>>(MakeThreadWorld(kRanks))](
                         Transport& transport) {
      const int rank = transport.rank();
      Communicator communicator(std::move((*world)[static_cast<size_t>(rank)]), {}, std::chrono::seconds(5));
      GradientExchange exchange(communicator);
      CompressionOptions options;
      options.method = "dgc";
      options.density = 0.01;
      options.min_elements = 16;
      options.start_iter = 1;
      auto compression = std::make_unique<GradientCompression>(options, rank, kRanks);
      compression->Allow(1, "w");
      exchange.SetCompression(std::move(compression));
      std::vector<Floats> values = {Floats(5), Floats(kCount), Floats(kCount)};
      for (size_t i = 0; i < values.size(); ++i) {
        const Shape shape{static_cast<int64_t>(values[i].size())};
        ProgramSide(exchange).Announce(static_cast<int64_t>(i), "layer",
                                       Tensor({DType::kFloat32, shape, {}}, values[i].data()));
      }
      exchange.CheckAnnounced();
      const Schedule direct = FindAllReduce("direct").make({.ranks = kRanks}, rank);
      exchange.SetPlan(ends, std::vector<Schedule>(ends.size(), direct), Wire::kFloat32);
      for (int64_t iteration = 0; iteration < 3; ++iteration) {
        exchange.SetIteration(iteration);
        for (size_t i = 0; i < values.size(); ++i) {
          std::ranges::copy(Gradient(rank, iteration, values[i].size()), values[i].begin());
          ProgramSide(exchange).Begin(static_cast<int64_t>(i));
        }
        for (int64_t i = 0; i < 3; ++i) ProgramSide(exchange).End(i);
        exchange.Check();
        Floats sum(kCount);
        for (int r = 0; r < kRanks; ++r) {
          const Floats gradient = Gradient(r, iteration);
          for (size_t i = 0; i < kCount; ++i) sum[i] += gradient[i];
        }
        ASSERT_EQ(values[2], sum);
        if (iteration == 0) {
          ASSERT_EQ(values[1], sum);
        }
        if (iteration > 0) {
          EXPECT_LE(std::ranges::count_if(values[1], [](float v) { return v != 0; }), 3 * 11);
        }
      }
      results[static_cast<size_t>(rank)] = values[1];
    });
    for (const Floats& result : results) EXPECT_EQ(result, results[0]);
    return results[0];
  };
  EXPECT_EQ(run({3}), run({1, 2, 3}));
}

}  // namespace
}  // namespace moka
