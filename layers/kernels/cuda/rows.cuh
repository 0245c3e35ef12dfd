// Rows by whole numbers kept as values, as labels are: what takes rows reads, and for the sums back a list of the
// places that name each row, in their order, so that sums have a fixed one.
#pragma once

#include <cmath>
#include <cstdint>

#include "layers/kernels/cuda/launch_elements.cuh"
#include "layers/kernels/cuda/sort.cuh"
#include "layers/ops/maths/labels.h"

namespace moka::cuda {

// The numbers of `count` rows out of rule.classes.
template <class I>
struct RowNumbers {
  const I* values;
  int64_t count;
  LabelRule rule;
  bool truncates = false;  // fractions are cut off; otherwise they name no row

  // The row, or a negative number (layers/ops/maths/labels.h).
  __host__ __device__ int64_t At(int64_t m) const {
    const auto value = static_cast<double>(values[m]);
    if (truncates && value < 0) return kWrongLabel;
    return ReadLabel(rule.has_ignore, rule.ignore_label, truncates ? floor(value) : value, rule.classes);
  }
};

// Places sorted by the row that they name, those that name none last, and of each row where it begins among them.
struct RowLists {
  const SortItem* places;
  int32_t* first;  // -1: no place names the row
  int64_t count;

  // Calls f(place) for those that name `row`, in their order.
  template <class F>
  __host__ __device__ void Visit(int64_t row, F&& f) const {
    if (first[row] < 0) return;
    for (int64_t at = first[row]; at < count && IsOf(at, row); ++at) f(int64_t{places[at].index});
  }
  __host__ __device__ bool IsOf(int64_t at, int64_t row) const {
    return places[at].group == 0 && places[at].value == static_cast<uint64_t>(row);
  }
};

template <class I>
struct KeyPlace {
  RowNumbers<I> numbers;
  SortItem* items;
  __host__ __device__ void operator()(int64_t m) const {
    const int64_t row = numbers.At(m);
    items[m] = {row < 0 ? 0 : static_cast<uint64_t>(row), row < 0 ? 1U : 0U, static_cast<int32_t>(m)};
  }
};

struct ClearFirst {
  RowLists lists;
  __host__ __device__ void operator()(int64_t row) const { lists.first[row] = -1; }
};

struct FindFirst {
  RowLists lists;
  __host__ __device__ void operator()(int64_t at) const {
    const auto row = static_cast<int64_t>(lists.places[at].value);
    if (lists.IsOf(at, row) && (at == 0 || !lists.IsOf(at - 1, row))) lists.first[row] = static_cast<int32_t>(at);
  }
};

inline int64_t RowListBytes(int64_t rows, int64_t count) {
  return SortSpace::ScratchBytes(count) + rows * int64_t{sizeof(int32_t)};
}

// Places are sorted by the row they name (and by place among equals), then each place that begins a row says so: the
// lists cost n log^2 n comparisons and no atomics.
template <class I>
RowLists ListRows(Stream& stream, const RowNumbers<I>& numbers, std::byte* scratch) {
  const int64_t count = numbers.count;
  const SortSpace space(reinterpret_cast<SortItem*>(scratch), count);
  ForEach(stream, count, KeyPlace<I>{numbers, space.items});
  const RowLists lists{SortLines(stream, 1, count, space),
                       reinterpret_cast<int32_t*>(scratch + SortSpace::ScratchBytes(count)), count};
  ForEach(stream, numbers.rule.classes, ClearFirst{lists});
  ForEach(stream, count, FindFirst{lists});
  return lists;
}

}  // namespace moka::cuda
