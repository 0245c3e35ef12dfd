// Lines of items sorted by merging: runs of kRun first, then pairs of runs until one is left. Every item finds its own
// place by a search in the other run, so that a pass is one call for each, n log^2 n comparisons in all. The order is
// total, hence so is the result, whatever threads do.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "layers/kernels/cuda/launch_elements.cuh"

namespace moka::cuda {

struct alignas(16) SortItem {  // moved by one instruction
  uint64_t value;
  uint32_t group;
  int32_t index;  // in its line, before it was sorted
  // Smaller groups first, then smaller values, then the earlier.
  __host__ __device__ bool IsBefore(const SortItem& other) const {
    if (group != other.group) return group < other.group;
    return value != other.value ? value < other.value : index < other.index;
  }
};

// Where NaN goes in a descending order: before all or after all.
enum class NanPlace : uint8_t { kFirst, kLast };
__host__ __device__ inline uint64_t DescendingKey(double number, NanPlace nan) {
  constexpr uint64_t kAll = ~uint64_t{0};
  constexpr uint64_t kSign = uint64_t{1} << 63;
  if (number != number) return nan == NanPlace::kFirst ? 0 : kAll;
  const double value = number == 0 ? 0 : number;
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return (bits & kSign) != 0 ? bits : kAll ^ kSign ^ bits;  // bits of doubles grow with the magnitude
}

// The first of the places [begin, end) whose item is_before is false of; items it is true of come first.
template <class F>
__host__ __device__ int64_t PartitionPoint(const SortItem* items, int64_t begin, int64_t end, const F& is_before) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (is_before(items[middle])) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Runs of this length are sorted in one pass, in which each item counts those before it.
inline constexpr int64_t kRun = 32;

// Item i to its place among those of its run.
struct PlaceInRun {
  int64_t size;  // of a line
  const SortItem* from;
  SortItem* to;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t line = i / size * size;
    const int64_t begin = line + (i - line) / kRun * kRun;
    const int64_t end = begin + kRun < line + size ? begin + kRun : line + size;
    int64_t place = begin;
    for (int64_t j = begin; j < end; ++j) {
      if (from[j].IsBefore(from[i])) ++place;
    }
    to[place] = from[i];
  }
};

// Item i to its place in the union of its run, of `width`, and the one beside it.
struct PlaceInPair {
  int64_t size;
  int64_t width;
  const SortItem* from;
  SortItem* to;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t line = i / size * size;
    const int64_t end = line + size;
    const int64_t run = (i - line) / width;
    const int64_t own = line + run * width;
    // Runs are paired 0 and 1, 2 and 3, ..: the other's number differs in the lowest bit. A last run without another
    // stays.
    const int64_t other = line + (run ^ 1) * width;
    const int64_t other_end = other + width < end ? other + width : end;
    const SortItem item = from[i];
    int64_t before = 0;
    if (other < end) {
      before = PartitionPoint(from, other, other_end, [&](const SortItem& x) { return x.IsBefore(item); }) - other;
    }
    to[(own < other ? own : other) + (i - own) + before] = item;
  }
};

// lines x size items and as many places beside them.
struct SortSpace {
  SortItem* items;
  SortItem* beside;
  static int64_t ScratchBytes(int64_t count) { return 2 * count * int64_t{sizeof(SortItem)}; }
  SortSpace(SortItem* scratch, int64_t count) : items(scratch), beside(scratch + count) {}
};

// Sorts each line; the items are in the returned one of the two spaces.
// Each pass doubles the runs and swaps the two spaces.
inline const SortItem* SortLines(Stream& stream, int64_t lines, int64_t size, SortSpace space) {
  ForEach(stream, lines * size, PlaceInRun{size, space.items, space.beside});
  for (int64_t width = kRun; width < size; width *= 2) {
    std::swap(space.items, space.beside);
    ForEach(stream, lines * size, PlaceInPair{size, width, space.items, space.beside});
  }
  return space.beside;
}

}  // namespace moka::cuda
