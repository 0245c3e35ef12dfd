// Gradients summed while the rest is computed: values under every plan, the order of buckets, what is said when ranks
// differ or one ends early.
#include "comm/exchange/gradient_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/exchange/exchange_planner.h"
#include "comm/schedule/owned_parts.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr int kRanks = 3;
const std::vector<int64_t> kCounts = {3, 1000, 1, 70'000, 250};

// A rank's gradients, as a program's memory holds them.
struct Rank {
  explicit Rank(Communicator& world) : exchange(world) {
    for (size_t i = 0; i < kCounts.size(); ++i) {
      values.emplace_back(static_cast<size_t>(kCounts[i]));
      const TensorType type{DType::kFloat32, Shape{kCounts[i]}, {}};
      ProgramSide(exchange).Announce(static_cast<int64_t>(i), StrCat("layer", i), Tensor(type, values.back().data()));
    }
  }
  void Iterate(int rank, int iteration) {
    for (size_t i = 0; i < values.size(); ++i) {
      std::fill(values[i].begin(), values[i].end(),
                static_cast<float>((rank + 1) * (iteration + 1)) + static_cast<float>(i));
      ProgramSide(exchange).Begin(static_cast<int64_t>(i));
    }
    for (size_t i = 0; i < values.size(); ++i) ProgramSide(exchange).End(static_cast<int64_t>(i));
  }
  std::vector<std::vector<float>> values;
  GradientExchange exchange;
};

void RunWorld(const std::function<void(Communicator&)>& body) {
  RunRanks(kRanks, [&, world = std::make_shared<std::vector<std::unique_ptr<Transport>>>(MakeThreadWorld(kRanks))](
                       Transport& transport) {
    Communicator communicator(std::move((*world)[static_cast<size_t>(transport.rank())]), {}, std::chrono::seconds(5));
    body(communicator);
  });
}

TEST(GradientExchange, SumsUnderEveryPlanner) {
  for (const FusionPlanner& planner : FusionPlanners()) {
    RunWorld([&](Communicator& world) {
      Rank rank(world);
      rank.exchange.CheckAnnounced();
      ExchangePlanner plans(world, {.fusion = std::string(planner.name), .bucket_bytes = 4096});
      plans.Measure(1 << 16);
      plans.Plan(rank.exchange);
      for (int iteration = 0; iteration < 5; ++iteration) {
        if (iteration == 3) plans.Plan(rank.exchange);
        rank.Iterate(world.rank(), iteration);
        rank.exchange.Check();
        for (size_t i = 0; i < kCounts.size(); ++i) {
          const float sum = 6.0F * static_cast<float>(iteration + 1) + 3.0F * static_cast<float>(i);
          for (const float v : rank.values[i]) ASSERT_EQ(v, sum) << planner.name << " " << iteration << " " << i;
        }
      }
      const std::vector<BucketTimes> times = rank.exchange.Times().buckets;
      ASSERT_EQ(times.size(), plans.plan().buckets.size());
      for (size_t b = 0; b < times.size(); ++b) {
        EXPECT_LE(times[b].ready_s, times[b].begin_s);
        EXPECT_LE(times[b].begin_s, times[b].end_s);
        if (b > 0) {
          EXPECT_LE(times[b - 1].end_s, times[b].begin_s);
        }
      }
      EXPECT_EQ(rank.exchange.Times().iterations, 2);
    });
  }
}

TEST(GradientExchange, ABucketIsSummedWhileLaterGradientsAreComputed) {
  RunWorld([](Communicator& world) {
    Rank rank(world);
    const AllReduceAlgorithm& direct = FindAllReduce("direct");
    const Schedule schedule = direct.make({.ranks = kRanks}, world.rank());
    rank.exchange.SetPlan({2, 5}, {schedule, schedule}, Wire::kFloat32);
    for (std::vector<float>& values : rank.values) std::fill(values.begin(), values.end(), 1.0F);
    for (int64_t key = 0; key < 4; ++key) ProgramSide(rank.exchange).Begin(key);
    ProgramSide(rank.exchange).End(0);  // does not wait for what has not begun
    EXPECT_EQ(rank.values[0][0], 3.0F);
    ProgramSide(rank.exchange).Begin(4);
    for (int64_t key = 1; key < 5; ++key) ProgramSide(rank.exchange).End(key);
    EXPECT_EQ(rank.values[4][0], 3.0F);
  });
}

// A half type has 11 digits of a value: of this one the last is the 21st.
TEST(GradientExchange, WhatIsNoGradientIsNotRounded) {
  constexpr float kFine = 1.0F + 0x1p-20F;
  for (const Wire wire : {Wire::kFloat16, Wire::kBFloat16}) {
    RunWorld([&](Communicator& world) {
      Rank rank(world);
      for (const int64_t key : {0, 4}) rank.exchange.SetRoute(key, {GradientWay::kExactToAll, 0});
      EXPECT_EQ(CutsOf(rank.exchange.announced()), (std::vector<int>{1, 4, 5}));
      const Schedule schedule = FindAllReduce("ring").make({.ranks = kRanks}, world.rank());
      rank.exchange.SetPlan({1, 4, 5}, {schedule, schedule, schedule}, wire);
      for (std::vector<float>& values : rank.values) std::ranges::fill(values, kFine);
      for (int64_t key = 0; key < 5; ++key) ProgramSide(rank.exchange).Begin(key);
      for (int64_t key = 0; key < 5; ++key) ProgramSide(rank.exchange).End(key);
      for (const size_t exact : {0, 4}) EXPECT_EQ(rank.values[exact][0], 3 * kFine);
      EXPECT_EQ(rank.values[3][0], 3.0F);
    });
  }
}

// Two weights of the owners 0 and 1, of which the second travels later.
TEST(GradientExchange, AWeightIsThereBeforeLaterOnesHaveBegun) {
  std::atomic<int> has_first = 0;
  RunWorld([&](Communicator& world) {
    Rank rank(world);
    const int me = world.rank();
    rank.exchange.SetRoute(3, {GradientWay::kFromOwner, 0});
    rank.exchange.SetRoute(4, {GradientWay::kFromOwner, 1});
    EXPECT_EQ(rank.exchange.announced().first_gathered(), 3);
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, me);
    rank.exchange.SetPlan({3, 4, 5}, {schedule, schedule, schedule}, Wire::kFloat32);
    for (const int64_t key : {3, 4}) ProgramSide(rank.exchange).End(key);  // nothing is on its way yet
    for (int iteration = 0; iteration < 4; ++iteration) {
      for (std::vector<float>& values : rank.values)
        std::fill(values.begin(), values.end(), static_cast<float>(10 * iteration + me));
      for (int64_t key = 0; key < 4; ++key) ProgramSide(rank.exchange).Begin(key);
      for (int64_t key = 0; key < 3; ++key) ProgramSide(rank.exchange).End(key);
      EXPECT_EQ(rank.values[0][0], static_cast<float>(30 * iteration + 3));
      ProgramSide(rank.exchange).End(3);
      EXPECT_EQ(rank.values[3].back(), static_cast<float>(10 * iteration)) << "what rank 0 has";
      ++has_first;
      while (has_first < kRanks * (iteration + 1)) std::this_thread::yield();
      ProgramSide(rank.exchange).Begin(4);
      ProgramSide(rank.exchange).End(4);  // of the next iteration
      EXPECT_EQ(rank.values[4].back(), static_cast<float>(10 * iteration + 1)) << "what rank 1 has";
    }
    EXPECT_EQ(rank.exchange.arrivals().buckets(), 1) << "those that are summed";
  });
}

// A weight that is read late is needed late; the time that was waited is not counted.
TEST(GradientExchange, KnowsWhenWeightsAreRead) {
  RunWorld([](Communicator& world) {
    Rank rank(world);
    for (const int64_t key : {2, 3, 4}) rank.exchange.SetRoute(key, {GradientWay::kFromOwner, 0});
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, world.rank());
    rank.exchange.SetPlan({2, 3, 5}, {schedule, schedule, schedule}, Wire::kFloat32);
    for (int iteration = 0; iteration < 3; ++iteration) {
      ProgramSide(rank.exchange).End(2);
      ProgramSide(rank.exchange).End(3);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ProgramSide(rank.exchange).End(4);
      for (int64_t key = 0; key < 5; ++key) ProgramSide(rank.exchange).Begin(key);
    }
    rank.exchange.Drain();
    const std::vector<ExchangedGradient>& gradients = rank.exchange.announced().all();
    EXPECT_EQ(gradients[2].needed_s, 0);
    EXPECT_GE(gradients[3].needed_s, 0);
    EXPECT_GE(gradients[4].needed_s, 0.02);
  });
}

// Rank r's part i is worth 100 r + i everywhere: those of all ranks come where they belong, sums have all of them, and
// gradients beside them are summed. Two elements for this rank, three for the next.
TEST(PartsExchange, PartsGoToTheirRanksBesideSums) {
  RunWorld([](Communicator& world) {
    const int rank = world.rank();
    GradientExchange exchange(world);
    std::vector<float> own = {100.0F * static_cast<float>(rank), 1.0F};
    std::vector<float> gathered(6, -1.0F);
    std::vector<float> sent = {0, 0, 1, 1, 2, 2};
    for (float& value : sent) value += 100.0F * static_cast<float>(rank);
    std::vector<float> sums = {sent[static_cast<size_t>(2 * rank)], sent[static_cast<size_t>(2 * rank)]};
    const std::vector<int64_t> widths = {3, 2, 2};
    const int64_t width = widths[static_cast<size_t>(rank)];
    std::vector<float> columns(static_cast<size_t>(3 * width));
    for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<float>(100 * rank + static_cast<int>(i));
    std::vector<float> rows(7, -1.0F);
    std::vector<float> gradient(40, 1.0F);
    ProgramSide(exchange).AnnounceParts(10, "fc", {own, gathered, {0, 2}, {0, 2, 4, 6}, 6});
    ProgramSide(exchange).AnnounceParts(11, "fc", {columns, rows, {0, width, 2 * width, 3 * width}, {0, 3, 5, 7}, 7});
    ProgramSide(exchange).Announce(0, "conv", Tensor({DType::kFloat32, Shape{40}, {}}, gradient.data()));
    ProgramSide(exchange).AnnounceParts(12, "fc", {sent, sums, {0, 2, 4, 6}, {0, 2}, 6});
    exchange.CheckAnnounced();
    ExchangePlanner plans(world, {.fusion = "single"});
    plans.Measure(1 << 10);
    plans.Plan(exchange);
    for (const int64_t key : {10, 11, 0, 12}) {
      ProgramSide(exchange).Begin(key);
      ProgramSide(exchange).End(key);
    }
    exchange.Check();
    for (int from = 0; from < kRanks; ++from) {
      if (from == rank) continue;  // its own part is placed by whoever announces
      EXPECT_EQ(gathered[static_cast<size_t>(2 * from)], 100.0F * static_cast<float>(from));
      EXPECT_EQ(gathered[static_cast<size_t>(2 * from + 1)], 1.0F);
      const int64_t of_from = widths[static_cast<size_t>(from)];
      const int64_t at = from == 0 ? 0 : from == 1 ? 3 : 5;
      for (int64_t k = 0; k < of_from; ++k) {
        EXPECT_EQ(rows[static_cast<size_t>(at + k)], static_cast<float>(100 * from + rank * of_from + k)) << from;
      }
    }
    EXPECT_EQ(sums, std::vector<float>(2, 300.0F + 3.0F * static_cast<float>(rank)));
    EXPECT_EQ(gradient, std::vector<float>(40, 3.0F));
  });
}

// A rank sends n D of features, as much of their gradients, and (R-1)/R n K of outputs there and back.
TEST(PartsExchange, BytesThatCrossAreThoseDocumented) {
  constexpr int64_t kN = 5;
  constexpr int64_t kD = 64;
  constexpr int64_t kK = 10'000;
  constexpr int64_t kR = 4;
  std::vector<int64_t> rows;
  std::vector<int64_t> outputs;
  std::vector<int64_t> columns;
  for (int64_t r = 0; r <= kR; ++r) {
    rows.push_back(r * kN * kD);
    outputs.push_back(r * kN * kK / kR);
    columns.push_back(r * kN * kK / kR);
  }
  const auto bytes = [](const std::vector<int64_t>& sent, const std::vector<int64_t>& received) {
    const Schedule schedule = ExchangeParts(1, kR, sent, received);
    return 4 * SentElements(schedule, sent.back() + received.back());
  };
  EXPECT_EQ(bytes({0, kN * kD}, rows), 4 * (kR - 1) * kN * kD);
  EXPECT_EQ(bytes(rows, {0, kN * kD}), 4 * (kR - 1) * kN * kD);
  EXPECT_EQ(bytes(outputs, columns), 4 * (kR - 1) * kN * kK / kR);
}

// Key 0 is told apart: its first element is the loss.
float SumOf(int iteration, size_t i) { return 6.0F * static_cast<float>(iteration + 1) + 3.0F * static_cast<float>(i); }

TEST(DelayedExchange, GivesTheSumsOfSoManyIterationsBeforeUnderAnyPlan) {
  for (const int delay : {1, 2, 3}) {
    RunWorld([&](Communicator& world) {
      Rank rank(world);
      rank.exchange.SetDelay(delay, false, {0}, 0);
      ExchangePlanner plans(world, {.fusion = "fixed", .bucket_bytes = 4096});
      plans.Measure(1 << 16);
      plans.Plan(rank.exchange);
      for (int iteration = 0; iteration < 9; ++iteration) {
        if (iteration == 4) {
          rank.exchange.Drain();
          ExchangePlanner others(world, {.fusion = "single"});
          others.Measure(1 << 16);
          others.Plan(rank.exchange);
        }
        rank.Iterate(world.rank(), iteration);
        rank.exchange.Check();
        const int age = iteration - delay;
        ASSERT_EQ(rank.values[0][0], SumOf(age < 0 ? iteration : age, 0)) << iteration;
        for (size_t i = 1; i < kCounts.size(); ++i) {
          for (const float v : rank.values[i]) ASSERT_EQ(v, age < 0 ? 0 : SumOf(age, i)) << iteration << " " << i;
        }
      }
      rank.exchange.Drain();
      EXPECT_NE(rank.exchange.delays()->Describe().find(std::to_string(delay)), std::string::npos);
    });
  }
}

TEST(DelayedExchange, WhatWaitsGoesOnInAnotherProcess) {
  RunWorld([](Communicator& world) {
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, world.rank());
    std::vector<std::vector<std::vector<float>>> waiting;  // by age, by gradient
    {
      Rank rank(world);
      rank.exchange.SetDelay(2, false, {0}, 0);
      rank.exchange.SetPlan({2, 5}, {schedule, schedule}, Wire::kFloat32);
      for (int iteration = 0; iteration < 5; ++iteration) rank.Iterate(world.rank(), iteration);
      rank.exchange.Drain();
      for (int age = 1; age <= 2; ++age) {
        std::vector<std::vector<float>>& sums = waiting.emplace_back();
        for (size_t i = 0; i < kCounts.size(); ++i) {
          sums.emplace_back(static_cast<size_t>(kCounts[i]));
          rank.exchange.delays()->Save(static_cast<int>(i), age, sums.back());
          if (i > 0) {
            EXPECT_EQ(sums.back()[0], SumOf(5 - age, i));
          }
        }
      }
    }
    Rank rank(world);
    rank.exchange.SetDelay(2, false, {0}, 0);
    rank.exchange.SetPlan({5}, {schedule}, Wire::kFloat32);
    for (int age = 1; age <= 2; ++age) {
      for (size_t i = 1; i < kCounts.size(); ++i) {
        rank.exchange.delays()->Load(static_cast<int>(i), age, waiting[static_cast<size_t>(age - 1)][i]);
      }
    }
    for (int iteration = 5; iteration < 9; ++iteration) {
      rank.Iterate(world.rank(), iteration);
      for (size_t i = 1; i < kCounts.size(); ++i) {
        ASSERT_EQ(rank.values[i].back(), SumOf(iteration - 2, i)) << iteration << " " << i;
      }
    }
    rank.exchange.Drain();
  });
}

TEST(DelayedExchange, GradientsOfALossThatIsNotFiniteAreLeftOut) {
  // Whether the loss travels in the first bucket or in one that comes after those it is about.
  for (const int64_t loss : {0, 4}) {
    RunWorld([&](Communicator& world) {
      Rank rank(world);
      const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, world.rank());
      rank.exchange.SetDelay(1, false, {loss}, loss);
      rank.exchange.SetPlan({2, 5}, {schedule, schedule}, Wire::kFloat32);
      for (int iteration = 0; iteration < 4; ++iteration) {
        for (size_t i = 0; i < rank.values.size(); ++i) {
          std::ranges::fill(rank.values[i], 1.0F);
          if (iteration == 1 && world.rank() == 1) rank.values[i][0] = std::nanf("");
          ProgramSide(rank.exchange).Begin(static_cast<int64_t>(i));
        }
        for (int64_t key = 0; key < 5; ++key) ProgramSide(rank.exchange).End(key);
        const float expected = iteration == 0 || iteration == 2 ? 0.0F : 3.0F;
        EXPECT_EQ(rank.values[static_cast<size_t>(4 - loss)][0], expected) << iteration;
        EXPECT_EQ(std::isnan(rank.values[static_cast<size_t>(loss)][0]), iteration == 2) << "the loss itself is told";
      }
      rank.exchange.Drain();
    });
  }
}

TEST(DelayedExchange, ADynamicDelayGrowsWhereItIsWaitedForAndLosesNothing) {
  RunWorld([](Communicator& world) {
    Rank rank(world);
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, world.rank());
    rank.exchange.SetDelay(2, true, {0}, 0);
    rank.exchange.SetPlan({5}, {schedule}, Wire::kFloat32);
    double given = 0;
    double taken = 0;
    const int iterations = 6 * DelayedSums::kAdaptEvery;
    for (int iteration = 0; iteration < iterations; ++iteration) {
      for (size_t i = 0; i < rank.values.size(); ++i) {
        std::ranges::fill(rank.values[i], static_cast<float>(iteration + 1));
        // One rank is slow in its last gradient, so the others wait.
        if (i + 1 == rank.values.size() && world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ProgramSide(rank.exchange).Begin(static_cast<int64_t>(i));
      }
      for (int64_t key = 0; key < 5; ++key) ProgramSide(rank.exchange).End(key);
      given += 3.0 * (iteration + 1);
      taken += double{rank.values[2][0]};
      if ((iteration + 1) % DelayedSums::kAdaptEvery != 0) continue;
      rank.exchange.Drain();
      rank.exchange.delays()->Adapt(world);
    }
    EXPECT_EQ(rank.exchange.delays()->Describe(), "updates are 2 iterations late (at most 2)");
    rank.exchange.Drain();
    for (int age = 1; age <= 2; ++age) {
      std::vector<float> waiting(static_cast<size_t>(kCounts[2]));
      rank.exchange.delays()->Save(2, age, waiting);
      taken += double{waiting[0]};
    }
    EXPECT_EQ(taken, given) << "every sum is taken once";
  });
}

TEST(GradientExchange, RanksOfDifferentProgramsAreTold) {
  RunWorld([](Communicator& world) {
    Rank rank(world);
    std::vector<float> more(7);
    if (world.rank() == 2) {
      ProgramSide(rank.exchange).Announce(99, "extra", Tensor({DType::kFloat32, Shape{7}, {}}, more.data()));
    }
    try {
      rank.exchange.CheckAnnounced();
      ADD_FAILURE() << "rank 2 has another program";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kConfig);
      EXPECT_NE(error.text().find("gradient 5 is \"no more\" on rank 0"), std::string::npos) << error.text();
      EXPECT_NE(error.text().find("\"extra float32[7]\" on rank 2"), std::string::npos) << error.text();
    }
  });
}

TEST(GradientExchange, ARankThatEndsInTheMiddleEndsTheOthers) {
  RunWorld([](Communicator& world) {
    Rank rank(world);
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, world.rank());
    rank.exchange.SetPlan({1, 5}, {schedule, schedule}, Wire::kFloat32);
    if (world.rank() == 1) {
      ProgramSide(rank.exchange).Begin(0);
      rank.exchange.Cancel("record 17 is damaged");
      return;
    }
    rank.Iterate(world.rank(), 0);
    try {
      rank.exchange.Check();
      ADD_FAILURE() << "rank 1 has left";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      EXPECT_NE(error.text().find("rank 1 on this host: record 17 is damaged"), std::string::npos) << error.text();
    }
  });
}

TEST(GradientExchange, APlanMayFollowAtOnce) {
  // The thread may not be back from the last bucket of the old plan when the new one, of another length, begins.
  RunWorld([](Communicator& world) {
    Rank rank(world);
    const Schedule schedule = FindAllReduce("direct").make({.ranks = kRanks}, world.rank());
    const std::vector<std::vector<int>> plans = {{5}, {1, 3, 5}, {1, 2, 3, 4, 5}, {2, 5}};
    for (int iteration = 0; iteration < 400; ++iteration) {
      const std::vector<int>& ends = plans[static_cast<size_t>(iteration) % plans.size()];
      rank.exchange.SetPlan(ends, std::vector<Schedule>(ends.size(), schedule), Wire::kFloat32);
      rank.Iterate(world.rank(), iteration);
      rank.exchange.Check();
      for (size_t i = 0; i < kCounts.size(); ++i) {
        ASSERT_EQ(rank.values[i].back(), static_cast<float>(6 * (iteration + 1)) + 3.0F * static_cast<float>(i));
      }
    }
  });
}

TEST(GradientExchange, EndsWheneverItIsTold) {
  // The end may come at any point of the thread's way to its wait: a call that it misses would never come again.
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadWorld(1);
  Communicator world(std::move(transports[0]), {}, std::chrono::seconds(5));
  const Schedule schedule = FindAllReduce("direct").make({.ranks = 1}, 0);
  std::vector<float> values(1);
  for (int i = 0; i < 3000; ++i) {
    GradientExchange exchange(world);
    ProgramSide(exchange).Announce(0, "layer", Tensor({DType::kFloat32, Shape{1}, {}}, values.data()));
    exchange.SetPlan({1}, {schedule}, Wire::kFloat32);
    if (i % 2 == 1) ProgramSide(exchange).Begin(0);
    if (i % 2 == 1) ProgramSide(exchange).End(0);
  }
}

TEST(ExchangePlanner, RefusesWhatCannotRun) {
  RunWorld([](Communicator& world) {
    const auto refusal = [&](ExchangeOptions options) -> std::string {
      try {
        ExchangePlanner planner(world, std::move(options));
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kConfig);
        return StrCat(error.text(), "; ", error.hint());
      }
      return {};
    };
    EXPECT_NE(refusal({.algorithm = "rign"}).find("ring"), std::string::npos) << refusal({.algorithm = "rign"});
    EXPECT_NE(refusal({.algorithm = "ring"}).find("deterministic"), std::string::npos);
    EXPECT_EQ(refusal({.algorithm = "ring", .has_fixed_order = false}), "");
    EXPECT_NE(refusal({.algorithm = "ring:2", .has_fixed_order = false}).find("is no form of"), std::string::npos);
    EXPECT_NE(refusal({.algorithm = "hierarchical:2", .has_fixed_order = false}).find("do not divide 3 ranks"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace moka
