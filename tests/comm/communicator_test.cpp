// The words that ranks exchange beside gradients arrive whole, and errors with them.
#include "comm/transport/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/transport/mpi_world.h"
#include "comm/transport/rank_values.h"
#include "comm/transport/thread_ranks.h"
#include "core/error.h"
#include "core/text.h"
#include "tests/comm/world.h"

namespace moka {
namespace {

void RunCommunicators(int ranks, const std::vector<std::string>& hosts, const std::function<void(Communicator&)>& body,
                      std::chrono::milliseconds patience = std::chrono::milliseconds(500)) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (auto& transport : world) {
    communicators.push_back(std::make_unique<Communicator>(std::move(transport), hosts, patience));
  }
  RunRanks(ranks, [&](Transport& transport) { body(*communicators[static_cast<size_t>(transport.rank())]); });
}

TEST(Communicator, BroadcastsFromAnyRankToAnyNumber) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16}) {
    for (int root = 0; root < ranks; ++root) {
      // Longer than a ring, odd, and empty.
      for (const size_t length : {size_t{300'001}, size_t{13}, size_t{0}}) {
        const std::string text(length, static_cast<char>('a' + root));
        RunCommunicators(ranks, {}, [&](Communicator& world) {
          EXPECT_EQ(world.Broadcast(world.rank() == root ? text : "not this", root), text);
        });
      }
      if (ranks > 8) break;
    }
  }
}

TEST(Communicator, GathersEveryRanksTextInTheirOrder) {
  RunCommunicators(5, {}, [](Communicator& world) {
    const std::vector<std::string> all = world.AllGather(std::string(static_cast<size_t>(world.rank()), 'x'));
    ASSERT_EQ(all.size(), 5U);
    for (size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], std::string(r, 'x'));
  });
}

TEST(Communicator, NobodyLeavesABarrierBeforeAllHaveEnteredIt) {
  for (const int ranks : {1, 2, 3, 7, 8, 9, 17, 65}) {
    constexpr int kRounds = 20;
    std::vector<std::atomic<int>> entered(kRounds);
    RunCommunicators(
        ranks, {},
        [&](Communicator& world) {
          for (std::atomic<int>& count : entered) {
            ++count;
            world.Barrier();
            EXPECT_EQ(count.load(), ranks);
          }
        },
        std::chrono::seconds(20));
  }
}

TEST(Communicator, SumsInTheOrderOfRanksOnAllOfThem) {
  RunCommunicators(4, {}, [](Communicator& world) {
    std::vector<double> values = {0.1 * (world.rank() + 1), 1e16, world.rank() == 3 ? -4e16 : 0.0};
    world.Sum(values);
    EXPECT_EQ(values[0], 0.1 + 0.1 * 2 + 0.1 * 3 + 0.1 * 4);
    EXPECT_EQ(values[1], 4e16);
    EXPECT_EQ(values[2], -4e16);
  });
}

TEST(Communicator, KnowsHostsThatAllHaveEquallyManyNeighbors) {
  const auto group_of = [](std::vector<std::string> hosts) {
    const int ranks = static_cast<int>(hosts.size());
    return Communicator(std::move(MakeThreadWorld(ranks)[0]), std::move(hosts)).group();
  };
  EXPECT_EQ(group_of({"a", "a", "b", "b"}), 2);
  EXPECT_EQ(group_of({"a", "a", "a", "a"}), 4);
  EXPECT_EQ(group_of({"a", "a", "b"}), 1);
  EXPECT_EQ(group_of({"a", "b", "a", "b"}), 1);
  EXPECT_EQ(group_of({"a", "a", "b", "c"}), 1);
  EXPECT_EQ(group_of({"a", "a", "a", "a", "b", "b"}), 1);
}

TEST(Communicator, KnowsNumaNodesThatAllHaveEquallyManyNeighbors) {
  const auto group_of = [](std::vector<std::string> hosts, std::vector<int> nodes) {
    const int ranks = static_cast<int>(hosts.size());
    return Communicator(std::move(MakeThreadWorld(ranks)[0]), std::move(hosts), std::chrono::seconds(1),
                        std::move(nodes))
        .numa_group();
  };
  EXPECT_EQ(group_of({"a", "a", "a", "a"}, {0, 0, 1, 1}), 2);
  EXPECT_EQ(group_of({"a", "a", "b", "b"}, {0, 0, 0, 0}), 2) << "two hosts' nodes of one number are two";
  EXPECT_EQ(group_of({"a", "a", "a", "a"}, {0, 1, 0, 1}), 1);
  EXPECT_EQ(group_of({"a", "a", "b", "b"}, {0, 0, -1, -1}), 2) << "hosts' ranks where some are not bound";
  EXPECT_EQ(group_of({"a", "a", "a", "a"}, {}), 4);
}

TEST(Communicator, CountsTheRanksOfAHost) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(5);
  std::vector<int> places;
  for (std::unique_ptr<Transport>& transport : world) {
    places.push_back(LocalRank(Communicator(std::move(transport), {"a", "a", "b", "a", "b"})));
  }
  EXPECT_EQ(places, (std::vector<int>{0, 1, 0, 2, 1}));
}

TEST(Communicator, NamesTheRankAndHostItWaitsFor) {
  RunCommunicators(2, {"left", "right"}, [](Communicator& world) {
    if (world.rank() == 1) return;
    try {
      world.Barrier();
      ADD_FAILURE() << "rank 1 does not come";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeer);
      EXPECT_EQ(error.text(), "rank 0 on left has waited 0.5 s for rank 1 on right");
    }
  });
}

TEST(Communicator, AFailureReachesAllWithTheNameOfWhoFailed) {
  RunCommunicators(3, {"a", "b", "c"}, [](Communicator& world) {
    if (world.rank() == 1) return world.Fail("its disk is full");
    try {
      world.Barrier();
      ADD_FAILURE() << "rank 1 gave up";
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "rank 1 on b: its disk is full");
    }
  });
}

TEST(Communicator, AStalledRankSaysWhomItWaitsFor) {
  std::vector<std::unique_ptr<Transport>> world = MakeThreadWorld(2);
  Communicator first(std::move(world[0]));
  Communicator second(std::move(world[1]));
  RunRanks(2, [&](Transport& transport) {
    if (transport.rank() == 0) return first.Barrier();
    while (first.place().peers.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(first.place().peers, std::vector<int>{1});
    EXPECT_EQ(first.place().collective, 1);
    EXPECT_EQ(first.place().round, 0);
    EXPECT_FALSE(first.place().is_sending);
    EXPECT_EQ(second.place().collective, 0);
    second.Barrier();
  });
  EXPECT_TRUE(first.place().peers.empty());
  EXPECT_EQ(second.place().collective, 1);
}

TEST(Communicator, ARankAtWorkIsWaitedForPastTheDeadline) {
  RunCommunicators(2, {}, [](Communicator& world) {
    world.SetPatience(std::chrono::milliseconds(100));
    int asked = 0;
    world.SetWatch({.is_working = [&] { return ++asked > 0; }});
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    world.Barrier();
    EXPECT_EQ(asked > 1, world.rank() == 0);
  });
}

TEST(Communicator, WhoGivesUpBeginsWithItsDiagnosis) {
  RunCommunicators(2, {"left", "right"}, [](Communicator& world) {
    if (world.rank() == 1) return;
    world.SetPatience(std::chrono::milliseconds(100));
    world.SetWatch({.is_working = [] { return false; }, .diagnose = [] { return "rank 1 is gone; "; }});
    try {
      world.Barrier();
      ADD_FAILURE() << "rank 1 does not come";
    } catch (const Error& error) {
      EXPECT_EQ(error.text(), "rank 1 is gone; rank 0 on left has waited 0.1 s for rank 1 on right");
    }
  });
}

// A failing rank makes the others fail too; the report must be its own error, even if a rank before it has one.
TEST(ThreadRanks, TheErrorOfTheRankThatFailedIsThrownAgain) {
  std::vector<std::unique_ptr<Communicator>> world = MakeThreadRanks(3);
  std::vector<std::string> ends(3);
  try {
    RunRanks(world, [&](Communicator& own) {
      EXPECT_EQ(LocalRank(own), own.rank());
      if (own.rank() == 2) throw Error(ErrorKind::kBadData, "record 7 is damaged");
      try {
        own.Barrier();
        ADD_FAILURE() << "rank 2 has left";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kPeer);
        ends[static_cast<size_t>(own.rank())] = error.text();
        throw;
      }
    });
    FAIL() << "rank 2 has failed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    EXPECT_EQ(error.text(), "record 7 is damaged");
  }
  const std::string said = StrCat("rank 2 on ", HostName(), ": record 7 is damaged");
  EXPECT_TRUE(ends[0].ends_with(said) && ends[1].ends_with(said)) << ends[0] << "\n" << ends[1];
}

TEST(ThreadRanks, ExceptionsOfAnyTypeEndAllRanks) {
  std::vector<std::unique_ptr<Communicator>> world = MakeThreadRanks(2);
  EXPECT_THROW(RunRanks(world,
                        [](Communicator& own) {
                          if (own.rank() == 1) throw std::bad_alloc();
                          own.Barrier();
                        }),
               std::bad_alloc);
  world = MakeThreadRanks(2);
  EXPECT_THROW(RunRanks(world,
                        [](Communicator& own) {
                          if (own.rank() == 0) throw 7;
                          own.Barrier();
                        }),
               int);
  // Where nobody failed by itself, the first who gave up says why.
  world = MakeThreadRanks(2);
  for (auto& each : world) each->SetPatience(std::chrono::milliseconds(100));
  try {
    RunRanks(world, [](Communicator& own) {
      if (own.rank() == 1) own.Barrier();
    });
    FAIL() << "rank 0 never came";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  }
}

// Bytes of rank 1 as they are, which rank 0 takes for `read`'s; what that throws.
Error ThrownFor(const std::string& bytes, const std::function<void(Communicator&)>& read) {
  std::optional<Error> thrown;
  RunCommunicators(2, {"a", "b"}, [&](Communicator& world) {
    if (world.rank() == 1) {
      const std::span<std::byte> room = world.transport().Reserve(0);
      std::memcpy(room.data(), bytes.data(), bytes.size());
      return world.transport().Commit(0, std::ssize(bytes));
    }
    try {
      read(world);
    } catch (const Error& error) {
      thrown = error;
    }
  });
  return thrown.value_or(Error(ErrorKind::kInternal, "nothing is thrown"));
}

std::string Word(uint64_t number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

TEST(Communicator, RefusesWhatIsNoTextOrNumber) {
  const auto receive = [](Communicator& world) { world.Receive(1); };
  for (const uint64_t length : {UINT64_MAX, uint64_t{1} << 63U, (uint64_t{1} << 40U) + 1}) {
    const Error error = ThrownFor(Word(length), receive);
    EXPECT_EQ(error.kind(), ErrorKind::kPeer);
    EXPECT_EQ(error.text(), StrCat("rank 1 on b sent a text of ", length, " bytes"));
  }
  const auto clock = [](Communicator& world) {
    int64_t number = 0;
    TakeValues(world, 1, world.Receive(1), std::span(&number, 1));
  };
  const Error error = ThrownFor(Word(3) + std::string("abc\0\0\0\0\0", 8), clock);
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_EQ(error.text(), "rank 1 on b sent 3 bytes where 8 were due");
  const Error no_number = ThrownFor(Word(2) + std::string("4x\0\0\0\0\0\0", 8),
                                    [](Communicator& world) { WholeOfRank<int>(world, 1, world.Receive(1)); });
  EXPECT_EQ(no_number.text(), "rank 1 on b sent \"4x\" where a whole number was due");
}

// A length that a rank lies about costs no memory before its bytes come, and its silence ends with the patience.
TEST(Communicator, AsksForMoreThanComesAndGivesUp) {
  const Error error =
      ThrownFor(Word(uint64_t{1} << 39U) + std::string(64, 'x'), [](Communicator& world) { world.Receive(1); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeer);
  EXPECT_THAT(error.text(), testing::HasSubstr("has waited 0.5 s for rank 1 on b"));
}

}  // namespace
}  // namespace moka
