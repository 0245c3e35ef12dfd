// Bilinear interpolation with aligned corners over plain or channels-last images. Its gradient gathers: each pixel goes
// through the points that read it.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"
#include "layers/ops/shape/taps.h"

namespace moka {
namespace {

// The weights are products of one factor for each axis: first along the row, then between the rows.
template <class T>
struct InterpolateEach {
  cuda::Planes small;
  cuda::Planes large;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place p = large.At(i);
    // Corners are aligned: point i of n lies at i (m - 1) / (n - 1) of m.
    const Tap row = AlignedTap(p.at[1], small.size[1], large.size[1]);
    const Tap column = AlignedTap(p.at[2], small.size[2], large.size[2]);
    const auto at = [&](int64_t h, int64_t w) {
      return cuda::ToWide(x[small.Offset(p.n, p.c, h * small.size[2] + w)]);
    };
    const auto v = static_cast<W>(row.weight);
    const auto u = static_cast<W>(column.weight);
    const W upper = (1 - u) * at(row.low, column.low) + u * at(row.low, column.high);
    const W lower = (1 - u) * at(row.high, column.low) + u * at(row.high, column.high);
    y[i] = cuda::Narrow<T>((1 - v) * upper + v * lower);
  }
};

// The points of `out` that may read point `at` of `in`: those whose lower pixel is at - 1 or at.
__host__ __device__ inline cuda::Span ReadersOf(int64_t at, int64_t in, int64_t out) {
  if (in == 1) return {0, out};
  const int64_t steps = out > 1 ? out - 1 : 1;
  const int64_t begin = at > 0 ? ((at - 1) * steps + in - 2) / (in - 1) : 0;
  const int64_t end = ((at + 1) * steps + in - 2) / (in - 1);
  return {begin, end < out ? end : out};
}

// Returns the weight with which point i of `out` takes point `at` of `in`.
__host__ __device__ inline double WeightOf(int64_t at, int64_t i, int64_t in, int64_t out) {
  const Tap tap = AlignedTap(i, in, out);
  return (tap.low == at ? 1 - tap.weight : 0) + (tap.high == at ? tap.weight : 0);
}

// A gather over all that may read the pixel, some with weight 0, keeps each sum in a fixed order without atomics.
template <class T>
struct InterpolateBackwardEach {
  cuda::Planes small;
  cuda::Planes large;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place p = small.At(i);
    const cuda::Span rows = ReadersOf(p.at[1], small.size[1], large.size[1]);
    const cuda::Span columns = ReadersOf(p.at[2], small.size[2], large.size[2]);
    W sum = 0;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      const double v = WeightOf(p.at[1], h, small.size[1], large.size[1]);
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const auto weight = static_cast<W>(v * WeightOf(p.at[2], w, small.size[2], large.size[2]));
        sum += weight * cuda::ToWide(dy[large.Offset(p.n, p.c, h * large.size[2] + w)]);
      }
    }
    dx[i] = cuda::Narrow<T>(sum);
  }
};

class InterpolateKernel final : public BoundKernel {
 public:
  InterpolateKernel(const KernelQuery& query, bool is_backward)
      : x_(cuda::PlanesOf(query.inputs[0])),
        y_(cuda::PlanesOf(query.outputs[0])),
        dtype_(query.inputs[0].dtype),
        is_backward_(is_backward) {}
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (is_backward_) {
        cuda::ForEach(stream(), y_.Count(), InterpolateBackwardEach<T>{y_, x_, in<T>(0), out<T>(0)});
      } else {
        cuda::ForEach(stream(), y_.Count(), InterpolateEach<T>{x_, y_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  cuda::Planes x_;
  cuda::Planes y_;
  DType dtype_;
  bool is_backward_;
};

}  // namespace

KernelDef CudaInterpolate() {
  return cuda::OwnRow<InterpolateKernel, false>("interpolate", cuda::RefuseUnlessImages, cuda::ProposeImages);
}
KernelDef CudaInterpolateBackward() {
  return cuda::OwnRow<InterpolateKernel, true>("interpolate_backward", cuda::RefuseUnlessImages, cuda::ProposeImages);
}

}  // namespace moka
