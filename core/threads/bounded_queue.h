// A bounded queue for any number of producers and consumers without a lock: a ring whose cells carry sequence numbers
// (D. Vyukov, "Bounded MPMC queue", 1024cores.net). Cell i of a ring of n cells has a turn:
//
//   turn = p        free for the p-th push  (p = i, i + n, ...)
//   turn = p + 1    holds the p-th value, free for the p-th pop, which makes it p + n
//
// Memory order: who claims position p by moving tail_ (or head_) on owns the cell; the store of its next turn publishes
// what was written to it, and the load that sees the turn takes it over. These two are sequentially consistent, not
// only release and acquire: a thread that goes to sleep first counts itself and then looks at the turn, one that makes
// a value or a place first stores the turn and then looks for sleepers, so that one of the two sees the other.
//
// Waiting spins shortly, gives its processor away a few times, then sleeps. At most one sleeper of a side is being
// woken at a time; it wakes the next one if there is more to do, so a burst of pushes costs one call of the system.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace moka {

// Threads that wait for a change that others make. Costs those one load while no one sleeps.
class SleepingThreads {
 public:
  // Sleeps until ready(). Requires: ready() reads by sequentially consistent loads what is stored so before Wake*().
  template <class Ready>
  void SleepUntil(const Ready& ready) {
    state_.fetch_add(1);
    for (;;) {
      const uint32_t seen = version_.load();
      // Before ready(): who finds it set knows that a check follows. After the version: who sets it from now on changes
      // that, and what an earlier wake-up left set would keep off all later ones.
      state_.fetch_and(~kWaking);
      if (ready()) break;
      version_.wait(seen);
    }
    // Leaves, and takes along a wake-up that was meant for it.
    uint32_t state = state_.load();
    while (!state_.compare_exchange_weak(state, (state - 1) & ~kWaking)) {
    }
  }
  // Requires: the woken thread calls it again when it has taken its part and there is more.
  void WakeOne() {
    uint32_t state = state_.load();
    while (state != 0 && (state & kWaking) == 0) {
      if (!state_.compare_exchange_weak(state, state | kWaking)) continue;
      version_.fetch_add(1);
      version_.notify_one();
      return;
    }
  }
  void WakeAll() {
    version_.fetch_add(1);
    version_.notify_all();
  }

 private:
  static constexpr uint32_t kWaking = uint32_t{1} << 31U;
  std::atomic<uint32_t> state_ = 0;  // how many sleep, and whether one of them is being woken
  std::atomic<uint32_t> version_ = 0;
};

// Values may be of a type that can only be moved. Thread-safe but for construction and destruction; values that are
// left are destroyed with the queue.
template <class T>
class BoundedQueue {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>);

 public:
  // Room for at least so many values: the next power of two, and two at the least.
  explicit BoundedQueue(size_t least)
      : mask_(std::bit_ceil(least < 2 ? size_t{2} : least) - 1), cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;
  ~BoundedQueue() {
    while (TryPop()) {
    }
  }

  size_t capacity() const { return mask_ + 1; }

  // False, with the value left as it is, when the queue is full or closed.
  bool TryPush(T&& value) {
    uint64_t place = tail_.load(std::memory_order_relaxed);
    for (;;) {
      if ((place & kClosed) != 0) return false;
      Cell& cell = cells_[place & mask_];
      const auto ahead = static_cast<int64_t>(cell.turn.load() - place);
      if (ahead < 0) return false;
      if (ahead > 0) {
        place = tail_.load(std::memory_order_relaxed);
      } else if (tail_.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) {
        new (cell.bytes) T(std::move(value));
        cell.turn.store(place + 1);
        poppers_.WakeOne();
        return true;
      }
    }
  }

  // Nothing when the queue is empty, or its first value is not written yet.
  std::optional<T> TryPop() {
    uint64_t place = head_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[place & mask_];
      const auto ahead = static_cast<int64_t>(cell.turn.load() - (place + 1));
      if (ahead < 0) return std::nullopt;
      if (ahead > 0) {
        place = head_.load(std::memory_order_relaxed);
      } else if (head_.compare_exchange_weak(place, place + 1, std::memory_order_relaxed)) {
        T* value = std::launder(reinterpret_cast<T*>(cell.bytes));
        std::optional<T> taken(std::move(*value));
        value->~T();
        cell.turn.store(place + mask_ + 1);
        pushers_.WakeOne();
        return taken;
      }
    }
  }

  // Waits for a place. False, with the value left as it is, when the queue is closed.
  bool Push(T&& value) {
    bool is_done = false;
    const auto attempt = [&] { return is_done = TryPush(std::move(value)), is_done || is_closed(); };
    if (Wait(pushers_, attempt) && is_done && HasPlace()) pushers_.WakeOne();
    return is_done;
  }

  // Waits for a value. Nothing when the queue is closed and all its values are taken.
  std::optional<T> Pop() {
    std::optional<T> value;
    const auto attempt = [&] { return (value = TryPop()).has_value() || is_finished(); };
    if (Wait(poppers_, attempt) && value && HasValue()) poppers_.WakeOne();
    return value;
  }

  // No value comes in from now on; those that are in can be taken.
  void Close() {
    tail_.fetch_or(kClosed);
    poppers_.WakeAll();
    pushers_.WakeAll();
  }
  bool is_closed() const { return (tail_.load() & kClosed) != 0; }

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63U;
  static constexpr size_t kLine = 64;  // bytes that two processors should not both write
  struct Cell {
    std::atomic<uint64_t> turn;
    alignas(T) std::byte bytes[sizeof(T)];
  };

  bool is_finished() const { return is_closed() && head_.load() == (tail_.load() & ~kClosed); }
  // Whether the first unclaimed place has a value. A thread that claims it meanwhile need not wake others.
  bool HasValue() const {
    for (;;) {
      const uint64_t place = head_.load();
      if (cells_[place & mask_].turn.load() == place + 1) return true;
      if (head_.load() == place) return false;
    }
  }
  bool HasPlace() const {
    for (;;) {
      const uint64_t place = tail_.load();
      if (cells_[place & mask_].turn.load() == (place & ~kClosed)) return true;
      if (tail_.load() == place) return false;
    }
  }

  // Whether the thread has slept.
  template <class Attempt>
  static bool Wait(SleepingThreads& threads, const Attempt& attempt) {
    constexpr int kSpins = 32;
    constexpr int kYields = 4;  // others may have to run first where threads are more than processors
    for (int i = 0; i < kSpins + kYields; ++i) {
      if (attempt()) return false;
      if (i >= kSpins) std::this_thread::yield();
    }
    threads.SleepUntil(attempt);
    return true;
  }

  const size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  alignas(kLine) std::atomic<uint64_t> tail_ = 0;  // pushes claimed, and whether the queue is closed
  alignas(kLine) std::atomic<uint64_t> head_ = 0;  // pops claimed
  alignas(kLine) SleepingThreads poppers_;
  alignas(kLine) SleepingThreads pushers_;
};

}  // namespace moka
