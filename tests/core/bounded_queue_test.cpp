// The queue against its contract: order, capacity, closing and, with many threads, no value lost, doubled or overtaken.
#include "core/threads/bounded_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace moka {
namespace {

TEST(BoundedQueue, KeepsOrderThroughManyTurnsOfTheRing) {
  BoundedQueue<int> queue(3);
  EXPECT_EQ(queue.capacity(), 4U);
  int in = 0;
  int out = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    while (queue.TryPush(int{in})) ++in;
    EXPECT_EQ(in - out, 4);
    for (int i = 0; i < 1 + turn % 4; ++i) EXPECT_EQ(queue.TryPop(), out++);
  }
  while (queue.TryPop()) ++out;
  EXPECT_EQ(out, in);
  EXPECT_FALSE(queue.TryPop());
}

TEST(BoundedQueue, MovesValuesAndLeavesThoseItRefuses) {
  BoundedQueue<std::unique_ptr<int>> queue(2);
  auto value = std::make_unique<int>(1);
  EXPECT_TRUE(queue.Push(std::move(value)));
  EXPECT_TRUE(queue.Push(std::make_unique<int>(2)));
  value = std::make_unique<int>(3);
  EXPECT_FALSE(queue.TryPush(std::move(value)));
  ASSERT_NE(value, nullptr);
  queue.Close();
  EXPECT_FALSE(queue.Push(std::move(value)));
  EXPECT_EQ(*value, 3);
  EXPECT_EQ(**queue.Pop(), 1);
  EXPECT_EQ(**queue.Pop(), 2);
  EXPECT_FALSE(queue.Pop());
}

TEST(BoundedQueue, DestroysWhatIsLeft) {
  const auto counted = std::make_shared<int>(0);
  {
    BoundedQueue<std::shared_ptr<int>> queue(8);
    for (int i = 0; i < 11; ++i) {
      if (i > 7) queue.TryPop();
      queue.TryPush(std::shared_ptr<int>(counted));
    }
    EXPECT_EQ(counted.use_count(), 9);
  }
  EXPECT_EQ(counted.use_count(), 1);
}

// The values that consumers got from each producer, in the order in which each got it.
struct Received {
  std::vector<std::vector<std::vector<int>>> values;  // consumer, producer
};

Received PassThrough(int producers, int consumers, int count, size_t capacity) {
  BoundedQueue<std::pair<int, int>> queue(capacity);
  Received received;
  received.values.assign(static_cast<size_t>(consumers), std::vector<std::vector<int>>(static_cast<size_t>(producers)));
  std::vector<std::jthread> sources;
  std::vector<std::jthread> sinks;
  for (auto& lists : received.values) {
    sinks.emplace_back([&queue, &lists] {
      while (const auto value = queue.Pop()) lists[static_cast<size_t>(value->first)].push_back(value->second);
    });
  }
  for (int p = 0; p < producers; ++p) {
    sources.emplace_back([&queue, p, count] {
      for (int i = 0; i < count; ++i) {
        if (i % 3 == 0 && queue.TryPush({p, i})) continue;
        ASSERT_TRUE(queue.Push({p, i}));
      }
    });
  }
  sources.clear();
  queue.Close();
  sinks.clear();
  return received;
}

TEST(BoundedQueue, ManyThreadsLoseNothingAndOvertakeNoOneOfTheirs) {
  constexpr int kCount = 5000;
  for (const size_t capacity : {2, 7, 64}) {
    for (const auto& [producers, consumers] : {std::pair{1, 1}, {4, 4}, {1, 5}, {5, 1}}) {
      const Received received = PassThrough(producers, consumers, kCount, capacity);
      for (size_t p = 0; p < static_cast<size_t>(producers); ++p) {
        std::vector<bool> seen(kCount, false);
        for (const auto& lists : received.values) {
          EXPECT_TRUE(std::is_sorted(lists[p].begin(), lists[p].end())) << capacity;
          for (const int value : lists[p]) {
            EXPECT_FALSE(seen[static_cast<size_t>(value)]) << value;
            seen[static_cast<size_t>(value)] = true;
          }
        }
        EXPECT_THAT(seen, testing::Each(true)) << producers << " producers, " << consumers << " consumers";
      }
    }
  }
}

// Sleepers of both sides: a slow side makes the other sleep for each value.
TEST(BoundedQueue, SleepersWakeForValuesPlacesAndTheEnd) {
  for (const bool is_consumer_slow : {false, true}) {
    BoundedQueue<int> queue(2);
    int sum = 0;
    std::jthread consumer([&] {
      while (const auto value = queue.Pop()) {
        sum += *value;
        if (is_consumer_slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    for (int i = 1; i <= 40; ++i) {
      if (!is_consumer_slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      queue.Push(int{i});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    queue.Close();
    consumer.join();
    EXPECT_EQ(sum, 820);
  }
  BoundedQueue<int> full(2);
  while (full.TryPush(1)) {
  }
  bool was_pushed = true;
  std::jthread producer([&] { was_pushed = full.Push(2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  full.Close();
  producer.join();
  EXPECT_FALSE(was_pushed);
}

}  // namespace
}  // namespace moka
