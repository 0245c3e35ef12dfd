// Lines along one axis of a plain tensor seen as [outer, size, inner].
#pragma once

#include <cstdint>

#include "graph/kernel.h"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka::cuda {

struct LineMap {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  __host__ __device__ int64_t Count() const { return outer * inner; }
  // Of element c of a line.
  __host__ __device__ int64_t Offset(int64_t line, int64_t c) const {
    return (line / inner * size + c) * inner + line % inner;
  }
};

// Along the node's attribute "axis" of its first input.
inline LineMap LinesOf(const KernelQuery& query) {
  const Shape& shape = query.inputs[0].shape;
  const AxisSplit split = SplitAt(shape, CanonicalAxis(query.node.attributes.Int("axis"), shape, "axis"));
  return {split.outer, split.size, split.inner};
}

}  // namespace moka::cuda
