// Who is late: times kept without messages, compared on one clock.
#include "comm/exchange/arrivals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/exchange/gradient_exchange.h"
#include "comm/transport/clocks.h"
#include "core/text.h"
#include "core/trace.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

using std::chrono::milliseconds;

void RunWorld(int ranks, const std::function<void(Communicator&)>& body) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(ranks);
  RunRanks(world, [&](Transport& transport) {
    Communicator communicator(std::move(world[static_cast<size_t>(transport.rank())]), {}, std::chrono::seconds(5));
    body(communicator);
  });
}

TEST(OnCommonClock, GoesEvenlyFromOneMeasurementToTheOther) {
  const ClockOffset before{.at_micros = 1000, .micros = 50, .error_micros = 3};
  const ClockOffset after{.at_micros = 2000, .micros = 150, .error_micros = 3};
  EXPECT_EQ(OnCommonClock(1000, before, after), 1050);
  EXPECT_EQ(OnCommonClock(1250, before, after), 1325);
  EXPECT_EQ(OnCommonClock(2000, before, after), 2150);
  EXPECT_EQ(OnCommonClock(500, before, after), 550) << "before the first it stays";
  EXPECT_EQ(OnCommonClock(3000, before, after), 3150) << "and after the last";
  EXPECT_EQ(OnCommonClock(7, {}, {}), 7);
}

TEST(MeasureClock, FindsEachRanksOffsetWithinItsError) {
  RunWorld(4, [](Communicator& world) {
    const int64_t ahead = 5'000'000 * world.rank() - 7'000'000;
    const ClockOffset offset =
        MeasureClock(world, {StrCat("machine ", world.rank()), [&] { return NowMicros() + ahead; }});
    const int64_t truth = -5'000'000 * world.rank();
    EXPECT_LE(std::abs(offset.micros - truth), offset.error_micros + 1) << world.rank();
    EXPECT_LT(offset.error_micros, 20'000) << world.rank();
    EXPECT_NEAR(static_cast<double>(offset.at_micros), static_cast<double>(NowMicros() + ahead), 1e6);
  });
}

TEST(MeasureClock, RanksOfOneMachineReadOneClock) {
  RunWorld(3, [](Communicator& world) {
    const ClockOffset offset = MeasureClock(world);
    EXPECT_EQ(offset.micros, 0);
    EXPECT_EQ(offset.error_micros, 0);
    // If there are two machines, the ranks of the second measure.
    const ClockOffset other = MeasureClock(
        world, {world.rank() < 2 ? "a" : "b", [&] { return NowMicros() + (world.rank() < 2 ? 0 : 900'000); }});
    EXPECT_NEAR(static_cast<double>(other.micros), world.rank() < 2 ? 0 : -900'000,
                static_cast<double>(other.error_micros) + 1);
  });
}

TEST(ArrivalLog, KeepsEveryNthIterationWhenItIsFull) {
  ArrivalLog log;
  log.Start(3);  // rows of 4: 1024 fit
  for (int64_t i = 0; i < 1024; ++i) {
    log.BeginIteration();
    for (int b = 0; b < 3; ++b) log.Arrive(b, 10 * i + b);
    log.AddExposed(4);
    log.AddExposed(i);
  }
  ASSERT_EQ(log.rows().size(), 4096U);
  EXPECT_EQ(log.rows()[4 * 1023 + 2], 10232);
  EXPECT_EQ(log.rows()[4 * 1023 + 3], 1027);
  const int64_t* const memory = log.rows().data();
  for (int64_t i = 1024; i < 10'000; ++i) {
    log.BeginIteration();
    for (int b = 0; b < 3; ++b) log.Arrive(b, 10 * i + b);
    log.AddExposed(4 + i);
  }
  EXPECT_EQ(log.iterations(), 10'000);
  EXPECT_EQ(log.rows().data(), memory) << "it allocates nothing";
  ASSERT_EQ(log.rows().size(), 4 * 625U);  // every 16th
  for (int64_t row = 0; row < 625; ++row) {
    for (int64_t b = 0; b < 3; ++b) ASSERT_EQ(log.rows()[static_cast<size_t>(4 * row + b)], 160 * row + b) << row;
    ASSERT_EQ(log.rows()[static_cast<size_t>(4 * row + 3)], 16 * row + 4) << row;
  }
  log.Clear();
  EXPECT_TRUE(log.rows().empty());
  log.BeginIteration();
  log.Arrive(1, 77);
  EXPECT_EQ(std::vector<int64_t>(log.rows().begin(), log.rows().end()), (std::vector<int64_t>{0, 77, 0, 0}));
}

// Two buckets, four ranks, two iterations, microseconds: rank 2 is 3 ms behind from the second bucket on.
TEST(CompareArrivals, ComparesEachBucketWithTheFirstAndTheEndWithTheMedian) {
  const std::vector<std::vector<int64_t>> rows = {{0, 1000, 3500, 10'000, 11'000, 2900},
                                                  {100, 1100, 3000, 10'100, 11'100, 3000},
                                                  {200, 4200, 400, 10'200, 14'000, 500},
                                                  {300, 1200, 3000, 10'100, 11'400, 3000}};
  const ArrivalReport report = CompareArrivals(rows, 2);
  EXPECT_EQ(report.iterations, 2);
  EXPECT_EQ(report.latest, 2);
  ASSERT_EQ(report.ranks.size(), 4U);
  EXPECT_DOUBLE_EQ(report.ranks[0].buckets[0].mean_s, 0);
  EXPECT_DOUBLE_EQ(report.ranks[3].buckets[0].mean_s, 200e-6);
  EXPECT_DOUBLE_EQ(report.ranks[3].buckets[0].p90_s, 300e-6);
  EXPECT_DOUBLE_EQ(report.ranks[2].buckets[1].mean_s, 3100e-6);
  EXPECT_DOUBLE_EQ(report.ranks[2].buckets[1].p90_s, 3200e-6);
  EXPECT_NEAR(report.ranks[2].behind_median_s, (3100 + 2900) / 2 * 1e-6, 1e-12);
  EXPECT_NEAR(report.ranks[0].behind_median_s, -100e-6, 1e-12);
  // 2325 and 2125 us behind the mean; the standard error of two values is half their difference.
  EXPECT_NEAR(report.ranks[2].behind_mean_s, 2225e-6, 1e-9);
  EXPECT_NEAR(report.ranks[2].error_s, 100e-6, 1e-9);
  EXPECT_DOUBLE_EQ(report.ranks[2].last_part, 1);
  EXPECT_DOUBLE_EQ(report.ranks[0].last_part, 0);
  EXPECT_DOUBLE_EQ(report.ranks[0].exposed_s, 3200e-6);
  EXPECT_DOUBLE_EQ(report.ranks[0].wait_s, (3200 + 2900) / 2 * 1e-6) << "no more than it has waited in all";
  EXPECT_DOUBLE_EQ(report.ranks[2].wait_s, 0);
  EXPECT_EQ(ArrivalTable(report),
            "rank       bucket 0       bucket 1\n"
            "   0  0.000 (0.000)  0.000 (0.000)\n"
            "   1  0.100 (0.100)  0.100 (0.100)\n"
            "   2  0.200 (0.200)  3.100 (3.200)\n"
            "   3  0.200 (0.300)  0.300 (0.400)\n");
  const ArrivalReport nothing = CompareArrivals({{}, {}}, 2);
  EXPECT_EQ(nothing.latest, -1);
  EXPECT_EQ(ArrivalTable(nothing), "");
}

TEST(GatherArrivals, NamesTheRankThatSleepsThoughItsClockIsAnother) {
  RunWorld(4, [](Communicator& world) {
    std::vector<std::vector<float>> values = {std::vector<float>(300, 1.0F), std::vector<float>(5000, 1.0F)};
    GradientExchange exchange(world);
    for (size_t i = 0; i < values.size(); ++i) {
      const TensorType type{DType::kFloat32, Shape{static_cast<int64_t>(values[i].size())}, {}};
      ProgramSide(exchange).Announce(static_cast<int64_t>(i), StrCat("layer", i), Tensor(type, values[i].data()));
    }
    const Schedule schedule = FindAllReduce("direct").make({.ranks = world.size()}, world.rank());
    exchange.SetPlan({1, 2}, {schedule, schedule}, Wire::kFloat32);
    constexpr int kIterations = 8;
    for (int i = 0; i < kIterations; ++i) {
      ProgramSide(exchange).Begin(0);
      std::this_thread::sleep_for(milliseconds(world.rank() == 2 ? 24 : 4));
      ProgramSide(exchange).Begin(1);
      ProgramSide(exchange).End(0);
      ProgramSide(exchange).End(1);
    }
    exchange.Check();
    EXPECT_EQ(exchange.arrivals().iterations(), kIterations);
    // Rank 1's clock is taken for a second ahead, which all its times show.
    const ClockOffset clock{.at_micros = NowMicros(), .micros = world.rank() == 1 ? 1'000'000 : 0, .error_micros = 2};
    const ArrivalReport report = GatherArrivals(world, exchange.arrivals(), clock, clock);
    EXPECT_EQ(report.latest, 1) << "by a clock that is wrong";
    const ArrivalReport right = GatherArrivals(world, exchange.arrivals(), {}, {});
    EXPECT_EQ(right.iterations, kIterations);
    EXPECT_EQ(right.latest, 2);
    EXPECT_GT(right.ranks[2].behind_median_s, 0.010);
    EXPECT_GT(right.ranks[2].last_part, 0.7);
    EXPECT_GT(right.ranks[0].wait_s, 0.010) << "rank 0 waits for rank 2";
    EXPECT_LT(right.ranks[2].wait_s, 0.006) << "which waits for nobody";
    EXPECT_LE(right.ranks[0].wait_s, right.ranks[0].exposed_s);
    EXPECT_LT(right.ranks[2].buckets[0].mean_s, right.ranks[2].buckets[1].mean_s);
    EXPECT_DOUBLE_EQ(report.clock_error_s, 4e-6);
    exchange.arrivals().Clear();
    EXPECT_EQ(GatherArrivals(world, exchange.arrivals(), {}, {}).latest, -1);
  });
}

TEST(GatherArrivals, RanksThatKeptDifferentIterationsAreNotCompared) {
  RunWorld(2, [](Communicator& world) {
    ArrivalLog log;
    log.Start(2);
    for (int i = 0; i <= world.rank(); ++i) log.BeginIteration();
    const ArrivalReport report = GatherArrivals(world, log, {}, {});
    EXPECT_EQ(report.latest, -1);
    EXPECT_EQ(report.ranks.size(), 2U);
  });
}

}  // namespace
}  // namespace moka
