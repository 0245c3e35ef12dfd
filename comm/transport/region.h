// Memory that ranks of one host share: a ring of bytes for each ordered pair, a bell a rank sleeps by, and a place for
// what a rank says when it gives up. In one process (ranks are threads) or in POSIX shared memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace moka {

class Region {
 public:
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  virtual ~Region() = default;

  // One reader, one writer. Counters only grow; a position is a counter modulo ring_bytes(). `is_full` is set by a
  // writer that found no room: only then does the reader ring for what it has read.
  struct Ring {
    alignas(64) std::atomic<uint64_t> written{0};
    std::atomic<uint32_t> is_full{0};
    alignas(64) std::atomic<uint64_t> read{0};
  };
  // Rung by peers after each change. `sleeping`, if it is not 0, says that its rank sleeps: the ring that brings
  // `rings` to its lower half must also wake.
  struct alignas(64) Bell {
    static constexpr uint64_t kSleeps = uint64_t{1} << 32U;
    std::atomic<uint32_t> rings{0};
    std::atomic<uint64_t> sleeping{0};
  };
  static constexpr size_t kLastWords = 1024;
  struct alignas(64) LastWords {
    std::atomic<uint32_t> said{0};
    char text[kLastWords - 64] = {};
  };

  int ranks() const { return ranks_; }
  int64_t ring_bytes() const { return ring_bytes_; }
  Ring& ring(int from, int to) { return rings_[static_cast<size_t>(from) * static_cast<size_t>(ranks_) + to]; }
  std::byte* bytes(int from, int to) { return bytes_ + (int64_t{from} * ranks_ + to) * ring_bytes_; }
  Bell& bell(int rank) { return bells_[rank]; }
  LastWords& last_words(int rank) { return words_[rank]; }

  // Bytes of memory for so many ranks; a ring's size follows from their number, 16 MiB in all.
  static int64_t BytesFor(int ranks);

 protected:
  // Requires: memory of BytesFor(ranks), aligned to 64; zeroed if `fresh`.
  Region(std::byte* memory, int ranks, bool fresh);

 private:
  int ranks_;
  int64_t ring_bytes_;
  Bell* bells_;
  LastWords* words_;
  Ring* rings_;
  std::byte* bytes_;
};

// Returns a region for the ranks of one process, in its heap.
std::shared_ptr<Region> MakeHeapRegion(int ranks);
// Return a region shared by several processes: one rank creates it and the others open it; the name may be unlinked as
// soon as all have opened it. Errors: kUnavailable with what the system says and, where /dev/shm is full, how much is
// needed.
std::shared_ptr<Region> CreateSharedRegion(const std::string& name, int ranks);
std::shared_ptr<Region> OpenSharedRegion(const std::string& name, int ranks);
void UnlinkSharedRegion(const std::string& name);

}  // namespace moka
