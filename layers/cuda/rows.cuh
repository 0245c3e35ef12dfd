// Rows by whole numbers kept as values, as labels are: what takes rows reads, and for the sums back a list of the
// places that name each row, in their order, so that sums have a fixed one.
#pragma once

#include <cmath>
#include <cstdint>

#include "layers/cuda/launch.cuh"
#include "layers/ops/labels.h"

namespace moka::cuda {

// The numbers of `count` rows out of rule.classes.
template <class I>
struct RowNumbers {
  const I* values;
  int64_t count;
  LabelRule rule;
  bool truncates = false;  // fractions are cut off; otherwise they name no row

  // The row, or a negative number (layers/ops/labels.h).
  __host__ __device__ int64_t At(int64_t m) const {
    const auto value = static_cast<double>(values[m]);
    if (truncates && value < 0) return kWrongLabel;
    return ReadLabel(rule.has_ignore, rule.ignore_label, truncates ? floor(value) : value, rule.classes);
  }
};

// Of each row the first place that names it, or -1; of each place the next one of its row.
struct RowLists {
  int32_t* first;
  int32_t* next;

  static int64_t ScratchBytes(int64_t rows, int64_t count) { return (rows + count) * int64_t{sizeof(int32_t)}; }
  RowLists(int32_t* scratch, int64_t rows) : first(scratch), next(scratch + rows) {}
};

template <class I>
struct ListRow {
  RowNumbers<I> numbers;
  RowLists lists;
  __host__ __device__ void operator()(int64_t row) const {
    int32_t first = -1;
    for (int64_t m = numbers.count - 1; m >= 0; --m) {
      if (numbers.At(m) != row) continue;
      lists.next[m] = first;
      first = static_cast<int32_t>(m);
    }
    lists.first[row] = first;
  }
};

}  // namespace moka::cuda
