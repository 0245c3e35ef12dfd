// Lines along one axis of a plain tensor seen as [outer, size, inner].
#pragma once

#include <cstdint>

#include "graph/kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/ops/checks.h"
#include "layers/ops/visit.h"

namespace moka::cuda {

struct LineMap {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  __host__ __device__ int64_t Count() const { return outer * inner; }
  // Returns the offset of element c of a line.
  __host__ __device__ int64_t Offset(int64_t line, int64_t c) const {
    return (line / inner * size + c) * inner + line % inner;
  }
};

// Along the attribute "axis" of a tensor of this shape, and of the node's first input.
inline LineMap LinesOf(const Attributes& attributes, const Shape& shape) {
  const AxisSplit split = SplitAt(shape, CanonicalAxis(attributes.Int("axis"), shape, "axis"));
  return {split.outer, split.size, split.inner};
}
inline LineMap LinesOf(const KernelQuery& query) { return LinesOf(query.node.attributes, query.inputs[0].shape); }

// A line gone through by one thread.
template <class F>
struct LineInThread {
  F f;
  int64_t length;
  __host__ __device__ void operator()(int64_t line) const {
    typename F::State all = f.Start();
    for (int64_t i = 0; i < length; ++i) f.Add(line, i, all);
    for (int64_t i = 0; i < length; ++i) f.Write(line, i, all);
    f.Finish(line, all);
  }
};

// As ForEachRow, for functors that read along lines: neighbouring threads read neighbouring memory whether elements of
// a line lie together or those of neighbouring lines do.
template <class F>
void ForEachLine(Stream& stream, const LineMap& lines, const F& f) {
  if (lines.inner == 1) {
    ForEachRow(stream, lines.Count(), lines.size, f);
  } else {
    ForEach(stream, lines.Count(), LineInThread<F>{f, lines.size});
  }
}

}  // namespace moka::cuda
