// Values a second through core/threads/bounded_queue.h and through what it stands in for: a std::deque under a mutex
// with two condition variables, of the same capacity and with one value a call in both. Several producers and
// consumers; the two queues take turns, and each run checks that every value arrived once and in its producer's order.
// Prints JSON. Usage: queue_bench [ROUNDS [THREADS_OF_A_SIDE [CAPACITY]]]
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/median.h"
#include "core/threads/bounded_queue.h"

namespace moka {
namespace {

constexpr int64_t kValues = 400'000;  // of each producer

class LockedQueue {
 public:
  explicit LockedQueue(size_t capacity) : capacity_(capacity) {}
  bool Push(int64_t value) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [&] { return values_.size() < capacity_; });
      values_.push_back(value);
    }
    not_empty_.notify_one();
    return true;
  }
  std::optional<int64_t> Pop() {
    std::optional<int64_t> value;
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [&] { return !values_.empty() || is_closed_; });
      if (values_.empty()) return std::nullopt;
      value = values_.front();
      values_.pop_front();
    }
    not_full_.notify_one();
    return value;
  }
  void Close() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    not_empty_.notify_all();
  }

 private:
  size_t capacity_;
  std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::deque<int64_t> values_;
  bool is_closed_ = false;
};

// Seconds for all values to pass. Errors: kInternal if one is lost, comes twice or overtakes another.
template <class Queue>
double Seconds(int threads, size_t capacity) {
  Queue queue(capacity);
  std::vector<int64_t> sums(static_cast<size_t>(threads));
  std::atomic<bool> is_ordered = true;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::jthread> producers;
  std::vector<std::jthread> consumers;
  for (int t = 0; t < threads; ++t) {
    consumers.emplace_back([&, t] {
      std::vector<int64_t> last(static_cast<size_t>(threads), -1);
      int64_t sum = 0;
      while (const std::optional<int64_t> value = queue.Pop()) {
        int64_t& before = last[static_cast<size_t>(*value / kValues)];
        if (*value % kValues <= before) is_ordered = false;
        before = *value % kValues;
        sum += *value;
      }
      sums[static_cast<size_t>(t)] = sum;
    });
    producers.emplace_back([&, t] {
      for (int64_t i = 0; i < kValues; ++i) queue.Push(t * kValues + i);
    });
  }
  producers.clear();
  queue.Close();
  consumers.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  int64_t sum = 0;
  for (const int64_t part : sums) sum += part;
  const int64_t all = threads * kValues;
  Require(is_ordered && sum == all * (all - 1) / 2, "every value arrives once, those of a producer in order");
  return seconds;
}

nlohmann::json Spread(const std::vector<double>& values) {
  return {{"median", Median(values)},
          {"least", *std::ranges::min_element(values)},
          {"most", *std::ranges::max_element(values)}};
}

int Main(int rounds, int threads, size_t capacity) {
  std::vector<double> ring;
  std::vector<double> locked;
  std::vector<double> ratios;
  const double values = static_cast<double>(threads) * static_cast<double>(kValues) * 1e-6;
  for (int i = 0; i < rounds; ++i) {
    ring.push_back(values / Seconds<BoundedQueue<int64_t>>(threads, capacity));
    locked.push_back(values / Seconds<LockedQueue>(threads, capacity));
    ratios.push_back(ring.back() / locked.back());
  }
  const nlohmann::json result = {{"producers", threads},
                                 {"consumers", threads},
                                 {"capacity", capacity},
                                 {"processors", std::thread::hardware_concurrency()},
                                 {"rounds", rounds},
                                 {"ring_million_values_per_s", Spread(ring)},
                                 {"mutex_million_values_per_s", Spread(locked)},
                                 {"ratio", Spread(ratios)}};
  std::printf("%s\n", result.dump(1).c_str());
  return 0;
}

}  // namespace
}  // namespace moka

int main(int count, char** arguments) {
  try {
    const auto number = [&](int i, int otherwise) {
      return count > i ? std::max(1, std::atoi(arguments[i])) : otherwise;
    };
    return moka::Main(number(1, 7), number(2, 4), static_cast<size_t>(number(3, 1024)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
