// Each band has a table of 2^16 lists, one after another in one array (a counting sort). Pictures that are found to be
// near are joined in a forest of parents, whose roots are their group's first picture whatever the order of joining.
#include "data/check/near_groups.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

#include "core/threads/parallel.h"

namespace moka {
namespace {

constexpr size_t kBits = 64;
constexpr size_t kBandValues = size_t{1} << 16U;

// Sets that any number of threads join: a parent changes from a root to a lower place alone.
class JoinedSets {
 public:
  explicit JoinedSets(size_t count) : parents_(count) {
    for (size_t i = 0; i < count; ++i) parents_[i].store(static_cast<uint32_t>(i), std::memory_order_relaxed);
  }
  uint32_t RootOf(uint32_t i) const {
    for (uint32_t parent = parents_[i].load(); parent != i; parent = parents_[i].load()) i = parent;
    return i;
  }
  void Join(uint32_t a, uint32_t b) {
    for (;;) {
      a = RootOf(a);
      b = RootOf(b);
      if (a == b) return;
      if (a < b) std::swap(a, b);
      uint32_t root = a;
      if (parents_[a].compare_exchange_strong(root, b)) return;
    }
  }

 private:
  std::vector<std::atomic<uint32_t>> parents_;
};

// The places of the hashes by their value of one band.
class BandTable {
 public:
  BandTable(std::span<const PerceptualHash> hashes, const std::array<uint8_t, 16>& places) : begins_(kBandValues + 1) {
    std::vector<uint16_t> values;
    values.reserve(hashes.size());
    for (const PerceptualHash& hash : hashes) {
      values.push_back(BandOf(hash.bits, places));
      ++begins_[values.back() + size_t{1}];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    items_.resize(hashes.size());
    for (size_t i = 0; i < hashes.size(); ++i) items_[next[values[i]]++] = static_cast<uint32_t>(i);
  }
  // Ascending.
  std::span<const uint32_t> At(size_t value) const {
    return std::span(items_).subspan(begins_[value], begins_[value + 1] - begins_[value]);
  }

 private:
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> items_;
};

// Joins a hash with the near ones before it that have a band's value but for one bit. Returns whether all were looked
// at.
bool JoinNear(std::span<const PerceptualHash> hashes, uint32_t at, uint16_t value, const BandTable& table, int64_t most,
              JoinedSets& sets) {
  int64_t compared = 0;
  for (size_t flipped = 0; flipped <= 16; ++flipped) {
    const size_t probe = flipped == 16 ? value : value ^ (size_t{1} << flipped);
    for (const uint32_t other : table.At(probe)) {
      if (other >= at) break;
      if (compared++ == most) return false;
      if (HammingDistance(hashes[at].bits, hashes[other].bits) > kNearBits) continue;
      if (sets.RootOf(at) != sets.RootOf(other) && AreNear(hashes[at], hashes[other])) sets.Join(at, other);
    }
  }
  return true;
}

}  // namespace

HashBands BandsFor(std::span<const PerceptualHash> hashes) {
  std::array<int64_t, kBits> unlike_half = {};  // how far from half of the hashes those are that have the bit
  for (size_t bit = 0; bit < kBits; ++bit) {
    int64_t ones = 0;
    for (const PerceptualHash& hash : hashes) ones += static_cast<int64_t>(hash.bits >> bit & 1U);
    unlike_half.at(bit) = std::abs(2 * ones - static_cast<int64_t>(hashes.size()));
  }
  std::array<uint8_t, kBits> order = {};
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::ranges::stable_sort(order, {}, [&](uint8_t bit) { return unlike_half.at(bit); });
  HashBands bands = {};
  for (size_t i = 0; i < kBits; ++i) bands.at(i % bands.size()).at(i / bands.size()) = order.at(i);
  return bands;
}

uint16_t BandOf(uint64_t bits, const std::array<uint8_t, 16>& places) {
  uint16_t value = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    value = static_cast<uint16_t>(value | (bits >> places.at(i) & 1U) << i);
  }
  return value;
}

NearGroups FindNearGroups(std::span<const PerceptualHash> hashes, int64_t most_comparisons) {
  NearGroups found;
  const auto count = static_cast<int64_t>(hashes.size());
  if (count < 2) return found;
  const HashBands bands = BandsFor(hashes);
  constexpr int64_t kLeast = 1024;  // comparisons of one picture in one band
  const int64_t most = std::max(kLeast, most_comparisons / (static_cast<int64_t>(bands.size()) * count));
  JoinedSets sets(hashes.size());
  std::vector<std::atomic<bool>> cut(hashes.size());
  for (const auto& places : bands) {
    const BandTable table(hashes, places);
    constexpr int64_t kGrain = 256;
    ParallelFor(count, kGrain, [&](int64_t begin, int64_t end, int /*thread*/) {
      for (int64_t i = begin; i < end; ++i) {
        const PerceptualHash& hash = hashes[static_cast<size_t>(i)];
        if (hash.is_flat) continue;
        const uint16_t value = BandOf(hash.bits, places);
        if (!JoinNear(hashes, static_cast<uint32_t>(i), value, table, most, sets)) cut[static_cast<size_t>(i)] = true;
      }
    });
  }
  std::vector<uint32_t> members(hashes.size());
  for (uint32_t i = 0; i < hashes.size(); ++i) {
    found.cut += cut[i] ? 1 : 0;
    ++members[sets.RootOf(i)];
  }
  std::map<uint32_t, std::vector<int64_t>> groups;
  for (uint32_t i = 0; i < hashes.size(); ++i) {
    if (const uint32_t root = sets.RootOf(i); members[root] > 1) groups[root].push_back(i);
  }
  for (auto& [root, group] : groups) found.groups.push_back(std::move(group));
  return found;
}

}  // namespace moka
