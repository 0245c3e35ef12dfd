#include "comm/region_transport.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>

#include "core/error.h"
#include "core/pause.h"

namespace moka {
namespace {

// How often a rank looks before it sleeps: ranks may be more than cores, so looking means giving way, too.
constexpr int kSpins = 64;
constexpr int kRegionTransportYields = 32;

void Sleep(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds at_most) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at_most);
  const timespec time{seconds.count(), (at_most - seconds).count()};
  // Woken, interrupted, late or changed before: the caller looks again in any case.
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace

RegionTransport::RegionTransport(std::shared_ptr<Region> region, int rank)
    : Transport(rank, region->ranks()), region_(std::move(region)), ends_(static_cast<size_t>(size())) {
  Require(rank >= 0 && rank < size(), "a transport's rank is one of its region");
}

std::span<std::byte> RegionTransport::Reserve(int peer) {
  const uint64_t bytes = static_cast<uint64_t>(region_->ring_bytes());
  const uint64_t written = ends_[static_cast<size_t>(peer)].written;
  const uint64_t used = written - region_->ring(rank(), peer).read.load(std::memory_order_acquire);
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
  region_->ring(peer, rank()).read.store(read, std::memory_order_release);
  Ring(peer);
}

void RegionTransport::Ring(int peer) {
  Region::Bell& bell = region_->bell(peer);
  bell.rings.fetch_add(1, std::memory_order_seq_cst);
  if (bell.sleeping.load(std::memory_order_seq_cst) != 0) {
    ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&bell.rings), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void RegionTransport::Idle(Deadline until) {
  Region::Bell& bell = region_->bell(rank());
  const auto has_rung = [&] { return bell.rings.load(std::memory_order_acquire) != seen_; };
  for (int i = 0; i < kSpins && !has_rung(); ++i) PauseCpu();
  for (int i = 0; i < kRegionTransportYields && !has_rung(); ++i) ::sched_yield();
  if (!has_rung()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left > std::chrono::nanoseconds::zero()) {
      bell.sleeping.store(1, std::memory_order_seq_cst);
      Sleep(bell.rings, seen_, left);
      bell.sleeping.store(0, std::memory_order_relaxed);
    }
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
  for (int peer = 0; peer < size(); ++peer) Ring(peer);
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
