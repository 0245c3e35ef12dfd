// Ranks that sleep are woken by what they wait for: enough peers, room, or a rank that gives up.
#include "comm/transport/region_transport.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/comm/world.h"

namespace moka {
namespace {

constexpr std::chrono::seconds kLong(20);      // nobody waits so long who is woken
constexpr std::chrono::milliseconds kNap(30);  // after which the others sleep
constexpr std::chrono::seconds kSoon(5);       // even on a busy machine

void SendUnit(Transport& transport, int peer, uint64_t value) {
  const std::span<std::byte> room = transport.Reserve(peer);
  ASSERT_GE(room.size(), sizeof value);
  std::memcpy(room.data(), &value, sizeof value);
  transport.Commit(peer, sizeof value);
}

// Waits until `is_done`, by as many Idle(peers) as it takes; false if that lasted too long.
bool WaitFor(Transport& transport, int peers, const std::function<bool()>& is_done) {
  const auto begin = std::chrono::steady_clock::now();
  while (!is_done()) transport.Idle(std::chrono::steady_clock::now() + kLong, peers);
  return std::chrono::steady_clock::now() - begin < kSoon;
}

TEST(RegionTransport, ARankThatWaitsForSeveralSleepsUntilAllHaveCome) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 5;
  RunRanks(kRanks, [](Transport& transport) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      if (transport.rank() != 0) {
        std::this_thread::sleep_for(kNap * transport.rank());  // one after the other
        SendUnit(transport, 0, round);
        EXPECT_TRUE(WaitFor(transport, 1, [&] { return !transport.Peek(0).empty(); }));
        transport.Consume(0, Transport::kUnit);
        continue;
      }
      const auto missing = [&] {
        int count = 0;
        for (int peer = 1; peer < kRanks; ++peer) count += transport.Peek(peer).empty() ? 1 : 0;
        return count;
      };
      const auto begin = std::chrono::steady_clock::now();
      while (const int peers = missing()) transport.Idle(std::chrono::steady_clock::now() + kLong, peers);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
      for (int peer = 1; peer < kRanks; ++peer) {
        uint64_t value = 0;
        std::memcpy(&value, transport.Peek(peer).data(), sizeof value);
        EXPECT_EQ(value, round);
        transport.Consume(peer, Transport::kUnit);
        SendUnit(transport, peer, round);
      }
    }
  });
}

TEST(RegionTransport, AWriterThatFoundNoRoomIsWokenByTheFirstBytesRead) {
  RunRanks(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    if (transport.rank() == 0) {
      int64_t sent = 0;
      for (std::span<std::byte> room = transport.Reserve(peer); !room.empty(); room = transport.Reserve(peer)) {
        transport.Commit(peer, static_cast<int64_t>(room.size()));
        sent += static_cast<int64_t>(room.size());
      }
      EXPECT_GE(sent, 4096);
      EXPECT_TRUE(WaitFor(transport, 1, [&] { return !transport.Reserve(peer).empty(); }));
      EXPECT_EQ(transport.Reserve(peer).size(), static_cast<size_t>(Transport::kUnit));
      SendUnit(transport, peer, 1);
      return;
    }
    std::this_thread::sleep_for(kNap);
    ASSERT_FALSE(transport.Peek(peer).empty());
    transport.Consume(peer, Transport::kUnit);
  });
}

TEST(RegionTransport, ARankThatGivesUpWakesThoseWhoWaitForMore) {
  constexpr int kRanks = 3;
  RunRanks(kRanks, [](Transport& transport) {
    if (transport.rank() == 2) {
      std::this_thread::sleep_for(kNap);
      return transport.Fail("out of paper");
    }
    EXPECT_TRUE(WaitFor(transport, kRanks - 1, [&] { return !transport.failure().empty(); }));
    EXPECT_EQ(transport.failure(), "out of paper");
  });
}

}  // namespace
}  // namespace moka
