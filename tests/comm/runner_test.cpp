// Every algorithm, wire type and number of ranks, with ranks as threads: sums against double precision, equal bits on
// all ranks, sums that do not depend on how a message is cut where an algorithm says so, and ranks that do not answer.
#include "comm/schedule/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <random>
#include <vector>

#include "comm/algorithms/algorithm.h"
#include "comm/transport/shaped_transport.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr std::chrono::seconds kPatience(20);

std::vector<float> ValuesOf(int rank, int64_t count) {
  std::mt19937 random(static_cast<uint32_t>(rank * 1000003 + count));
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = uniform(random);
  return values;
}

// Groups of 2, 3 or 4 where they divide the ranks.
Arrangement ArrangementOf(int ranks) {
  Arrangement arrangement;
  arrangement.ranks = ranks;
  for (const int group : {4, 3, 2}) {
    if (ranks % group == 0 && ranks > group) {
      arrangement.group = group;
      break;
    }
  }
  arrangement.dimensions = {arrangement.group, ranks / arrangement.group};
  return arrangement;
}

// Returns the values that all ranks hold after the all-reduce.
std::vector<std::vector<float>> AllReduce(const AllReduceAlgorithm& algorithm, const Arrangement& arrangement,
                                          Wire wire, const std::vector<std::vector<float>>& values) {
  std::vector<std::vector<float>> results = values;
  RunRanks(arrangement.ranks, [&](Transport& transport) {
    Runner runner(transport, algorithm.make(arrangement, transport.rank()), wire);
    runner.Run(Message(results[static_cast<size_t>(transport.rank())]), kPatience);
  });
  return results;
}

TEST(Runner, EveryAlgorithmSumsWithinItsBoundAndGivesAllRanksTheSameBits) {
  for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16}) {
      const Arrangement arrangement = ArrangementOf(ranks);
      if (!algorithm.refuse(arrangement).empty()) continue;
      for (const Wire wire : {Wire::kFloat32, Wire::kFloat16, Wire::kBFloat16}) {
        for (const int64_t count : {0, 1, 17, 4099}) {
          SCOPED_TRACE(StrCat(algorithm.name, " ", ranks, " ranks ", NameOf(wire), " ", count, " values"));
          std::vector<std::vector<float>> values;
          for (int r = 0; r < ranks; ++r) values.push_back(ValuesOf(r, count));
          const std::vector<std::vector<float>> results = AllReduce(algorithm, arrangement, wire, values);
          // A value is rounded to the wire once a hop at most, a sum to float32 once an addition.
          const double step = wire == Wire::kFloat32 ? 0x1p-24 : wire == Wire::kFloat16 ? 0x1p-11 : 0x1p-8;
          for (int64_t i = 0; i < count; ++i) {
            double sum = 0;
            double magnitude = 0;
            for (const std::vector<float>& v : values) {
              sum += v[static_cast<size_t>(i)];
              magnitude += std::abs(v[static_cast<size_t>(i)]);
            }
            ASSERT_NEAR(results[0][static_cast<size_t>(i)], sum, magnitude * (step + 0x1p-24) * 2 * ranks) << i;
          }
          for (const std::vector<float>& result : results) ASSERT_EQ(result, results[0]);
        }
      }
    }
  }
}

TEST(Runner, AFixedOrderGivesTheSameBitsHoweverAMessageIsCut) {
  int checked = 0;
  for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
    if (!algorithm.has_fixed_order) continue;
    for (const int ranks : {3, 4, 6, 8}) {
      const Arrangement arrangement = ArrangementOf(ranks);
      if (!algorithm.refuse(arrangement).empty()) continue;
      // Whole and in pieces short, and a long one with a piece that is short.
      for (const int64_t count : {1001, 20011}) {
        for (const Wire wire : {Wire::kFloat32, Wire::kFloat16}) {
          SCOPED_TRACE(StrCat(algorithm.name, " ", ranks, " ranks, ", count, " values, ", NameOf(wire)));
          std::vector<std::vector<float>> values;
          for (int r = 0; r < ranks; ++r) values.push_back(ValuesOf(r, count));
          const std::vector<float> whole = AllReduce(algorithm, arrangement, wire, values)[0];
          constexpr int64_t kCut = 333;
          std::vector<std::vector<float>> front;
          std::vector<std::vector<float>> back;
          for (const std::vector<float>& v : values) {
            front.emplace_back(v.begin(), v.begin() + kCut);
            back.emplace_back(v.begin() + kCut, v.end());
          }
          std::vector<float> joined = AllReduce(algorithm, arrangement, wire, front)[0];
          const std::vector<float> rest = AllReduce(algorithm, arrangement, wire, back)[0];
          joined.insert(joined.end(), rest.begin(), rest.end());
          EXPECT_EQ(joined, whole);
          ++checked;
        }
      }
    }
  }
  EXPECT_GE(checked, 32);
}

TEST(Runner, SumsPiecesOfMemoryAsOneMessage) {
  constexpr int kRanks = 3;
  std::vector<std::vector<std::vector<float>>> pieces(kRanks);
  for (int r = 0; r < kRanks; ++r) {
    for (const int64_t count : {5, 0, 1, 300, 7}) {
      pieces[static_cast<size_t>(r)].emplace_back(static_cast<size_t>(count), static_cast<float>(r + 1));
    }
  }
  RunRanks(kRanks, [&](Transport& transport) {
    Message message;
    for (std::vector<float>& piece : pieces[static_cast<size_t>(transport.rank())]) {
      message.Append(piece.data(), static_cast<int64_t>(piece.size()));
    }
    EXPECT_EQ(message.size(), 313);
    const AllReduceAlgorithm& ring = FindAllReduce("ring");
    Runner(transport, ring.make({.ranks = kRanks}, transport.rank()), Wire::kFloat32).Run(message, kPatience);
  });
  for (const auto& rank : pieces) {
    for (const auto& piece : rank) {
      for (const float v : piece) ASSERT_EQ(v, 6.0F);
    }
  }
}

TEST(Runner, ManyMessagesLargerThanTheRings) {
  constexpr int kRanks = 4;
  RunRanks(kRanks, [&](Transport& transport) {
    const AllReduceAlgorithm& direct = FindAllReduce("direct");
    Runner runner(transport, direct.make({.ranks = kRanks}, transport.rank()), Wire::kBFloat16);
    std::vector<float> values(1'000'003);
    for (int repeat = 0; repeat < 3; ++repeat) {
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i + static_cast<size_t>(repeat)) % 16);
      runner.Run(Message(values), kPatience);
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], 4.0F * static_cast<float>((i + static_cast<size_t>(repeat)) % 16)) << i;
      }
    }
  });
}

TEST(Runner, NamesTheRankThatDoesNotCome) {
  std::mutex mutex;
  std::vector<std::string> texts;
  RunRanks(3, [&](Transport& transport) {
    if (transport.rank() == 1) return;
    std::vector<float> values(100'000, 1.0F);
    Runner runner(transport, FindAllReduce("direct").make({.ranks = 3}, transport.rank()), Wire::kFloat32);
    try {
      runner.Run(Message(values), std::chrono::milliseconds(100));
      ADD_FAILURE() << "a rank is missing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      const std::lock_guard lock(mutex);
      texts.push_back(error.text());
    }
  });
  ASSERT_EQ(texts.size(), 2U);
  for (const std::string& text : texts) EXPECT_NE(text.find("for rank 1 in round 1 of 2"), std::string::npos) << text;
}

TEST(Runner, HearsWhyARankGaveUp) {
  RunRanks(3, [&](Transport& transport) {
    if (transport.rank() == 2) return transport.Fail("rank 2 has no more disk");
    std::vector<float> values(1000, 1.0F);
    Runner runner(transport, FindAllReduce("ring").make({.ranks = 3}, transport.rank()), Wire::kFloat32);
    try {
      runner.Run(Message(values), kPatience);
      ADD_FAILURE() << "a rank gave up";
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "rank 2 has no more disk");
    }
  });
}

TEST(Runner, SumsOverSlowLinksAndTakesAsLongAsTheyDo) {
  constexpr int kRanks = 4;
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(kRanks);
  for (auto& transport : world) {
    transport = std::make_unique<ShapedTransport>(
        std::move(transport), LinkShape{.latency = std::chrono::milliseconds(2), .host_of = {0, 0, 1, 1}, .seed = 7});
  }
  const auto begin = std::chrono::steady_clock::now();
  RunRanks(world, [&](Transport& transport) {
    std::vector<float> values(100'000, 0.5F);
    Runner runner(transport, FindAllReduce("ring").make({.ranks = kRanks}, transport.rank()), Wire::kFloat32);
    runner.Run(Message(values), kPatience);
    EXPECT_EQ(std::ranges::count(values, 2.0F), 100'000);
  });
  // Three of the 6 steps of a chunk cross between the hosts.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(6));
}

TEST(Runner, ASilentRankIsWaitedForNoLongerThanAsked) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(2);
  world[1] = std::make_unique<ShapedTransport>(std::move(world[1]), LinkShape{.silent_after_bytes = 4096});
  world[0] = std::make_unique<ShapedTransport>(std::move(world[0]), LinkShape{});
  std::atomic<int> failed = 0;
  RunRanks(world, [&](Transport& transport) {
    std::vector<float> values(1'000'000, 1.0F);
    Runner runner(transport, FindAllReduce("ring").make({.ranks = 2}, transport.rank()), Wire::kFloat32);
    try {
      runner.Run(Message(values), std::chrono::milliseconds(200));
    } catch (const Error&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 2);
}

TEST(Runner, ASilentRankIsTheOneThatOthersReceiveNothingFrom) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(3);
  for (auto& transport : world) {
    LinkShape shape;
    if (transport->rank() == 1) shape.falls_silent = [] { return true; };
    transport = std::make_unique<ShapedTransport>(std::move(transport), std::move(shape));
  }
  std::vector<std::vector<int>> waits_for(3);
  std::vector<char> is_sending(3);
  EXPECT_THROW(RunRanks(world,
                        [&](Transport& transport) {
                          const auto rank = static_cast<size_t>(transport.rank());
                          std::vector<float> values(30'000, 1.0F);  // a part for each
                          Runner runner(transport, FindAllReduce("direct").make({.ranks = 3}, transport.rank()),
                                        Wire::kFloat32);
                          runner.SetOnStall([&](int, bool sends, std::vector<int> peers) {
                            waits_for[rank] = std::move(peers);
                            is_sending[rank] = sends ? 1 : 0;
                          });
                          runner.Run(Message(values), std::chrono::milliseconds(400));
                        }),
               Error);
  EXPECT_EQ(waits_for, (std::vector<std::vector<int>>{{1}, {0, 2}, {1}}));
  EXPECT_EQ(is_sending, (std::vector<char>{0, 1, 0}));
}

}  // namespace
}  // namespace moka
