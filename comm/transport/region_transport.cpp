// Lock-free rings of one writer and one reader (Lamport, "Proving the Correctness of Multiprocess Programs", 1977),
// whose counters are published with release and read with acquire, and bells by futex. Where one side must see the
// other's store before it sleeps the order is a store before a load, which only sequential consistency gives.
#include "comm/transport/region_transport.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include "core/error.h"
#include "core/threads/cpus.h"
#include "core/threads/pause.h"

namespace moka {
namespace {

// How long a rank looks before it sleeps: a peer that is at work is there within it, and being woken costs more than
// that. Where ranks are more than CPUs looking means giving way; elsewhere it does not, as what runs instead, of other
// programs, may keep the CPU for milliseconds, while one who is woken gets it back at once.
constexpr std::chrono::microseconds kLookTime(30);
constexpr int kPauses = 16;  // between two looks at the clock

// Counters of rings wrap around.
bool IsReached(uint32_t rings, uint32_t awaited) { return static_cast<int32_t>(rings - awaited) >= 0; }

void Sleep(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec time{seconds.count(), (at_most - seconds).count()};
  // Woken, interrupted, late or changed before: the caller looks again in any case.
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace

RegionTransport::RegionTransport(std::shared_ptr<Region> region, int rank)
    : Transport(rank, region->ranks()), region_(std::move(region)), ends_(static_cast<size_t>(size())) {
  gives_way_ = static_cast<size_t>(size()) > AffinityOf(0).size();
  Require(rank >= 0 && rank < size(), "a transport's rank is one of its region");
}

std::span<std::byte> RegionTransport::Reserve(int peer) {
  const uint64_t bytes = static_cast<uint64_t>(region_->ring_bytes());
  const uint64_t written = ends_[static_cast<size_t>(peer)].written;
  Region::Ring& ring = region_->ring(rank(), peer);
  uint64_t used = written - ring.read.load(std::memory_order_acquire);
  if (used == bytes) {
    // Said before the second look, as the reader reads before it looks whether this was said: one of them sees the
    // other.
    ring.is_full.store(1, std::memory_order_seq_cst);
    used = written - ring.read.load(std::memory_order_seq_cst);
  }
  const uint64_t at = written % bytes;
  return {region_->bytes(rank(), peer) + at, std::min(bytes - used, bytes - at)};
}

void RegionTransport::Commit(int peer, int64_t bytes) {
  uint64_t& written = ends_[static_cast<size_t>(peer)].written;
  written += static_cast<uint64_t>(bytes);
  region_->ring(rank(), peer).written.store(written, std::memory_order_release);
  Ring(peer);
}

std::span<const std::byte> RegionTransport::Peek(int peer) {
  const uint64_t bytes = static_cast<uint64_t>(region_->ring_bytes());
  const uint64_t read = ends_[static_cast<size_t>(peer)].read;
  const uint64_t there = region_->ring(peer, rank()).written.load(std::memory_order_acquire) - read;
  const uint64_t at = read % bytes;
  return {region_->bytes(peer, rank()) + at, std::min(there, bytes - at)};
}

void RegionTransport::Consume(int peer, int64_t bytes) {
  uint64_t& read = ends_[static_cast<size_t>(peer)].read;
  read += static_cast<uint64_t>(bytes);
  Region::Ring& ring = region_->ring(peer, rank());
  ring.read.store(read, std::memory_order_seq_cst);
  if (ring.is_full.load(std::memory_order_seq_cst) == 0) return;
  ring.is_full.store(0, std::memory_order_relaxed);
  Ring(peer);
}

void RegionTransport::Ring(int peer, Wakes wakes) {
  Region::Bell& bell = region_->bell(peer);
  const uint32_t rings = bell.rings.fetch_add(1, std::memory_order_seq_cst) + 1;
  const uint64_t sleeping = bell.sleeping.load(std::memory_order_seq_cst);
  if (sleeping == 0) return;
  if (wakes == Wakes::kAlways || IsReached(rings, static_cast<uint32_t>(sleeping))) {
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell.rings), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void RegionTransport::Idle(Deadline until, int peers) {
  Region::Bell& bell = region_->bell(rank());
  const uint32_t awaited = seen_ + static_cast<uint32_t>(peers);
  uint32_t rings = 0;
  const auto has_rung = [&] {
    rings = bell.rings.load(std::memory_order_acquire);
    return IsReached(rings, awaited);
  };
  const Deadline begin = std::chrono::steady_clock::now();
  Deadline now = begin;
  while (!has_rung() && now - begin < kLookTime) {
    if (gives_way_) {
      ::sched_yield();
    } else {
      for (int i = 0; i < kPauses; ++i) PauseCpu();
    }
    now = std::chrono::steady_clock::now();
  }
  if (!has_rung() && now < until) {
    bell.sleeping.store(Region::Bell::kSleeps | awaited, std::memory_order_seq_cst);
    Sleep(bell.rings, rings, until - now);
    bell.sleeping.store(0, std::memory_order_relaxed);
  }
  seen_ = bell.rings.load(std::memory_order_acquire);
}

void RegionTransport::Fail(const std::string& why) {
  Region::LastWords& words = region_->last_words(rank());
  if (words.said.load(std::memory_order_relaxed) == 0) {
    const size_t length = std::min(why.size(), sizeof words.text - 1);
    std::memcpy(words.text, why.data(), length);
    words.text[length] = 0;
    words.said.store(1, std::memory_order_release);
  }
  for (int peer = 0; peer < size(); ++peer) Ring(peer, Wakes::kAlways);
}

std::string RegionTransport::failure() const {
  for (int peer = 0; peer < size(); ++peer) {
    const Region::LastWords& words = region_->last_words(peer);
    if (words.said.load(std::memory_order_acquire) != 0) {
      return {words.text, ::strnlen(words.text, sizeof words.text)};
    }
  }
  return {};
}

std::vector<std::unique_ptr<Transport>> MakeThreadWorld(int ranks) {
  const std::shared_ptr<Region> region = MakeHeapRegion(ranks);
  std::vector<std::unique_ptr<Transport>> world;
  for (int rank = 0; rank < ranks; ++rank) world.push_back(std::make_unique<RegionTransport>(region, rank));
  return world;
}

}  // namespace moka
