// Patches of one map compared with displaced patches of another (formulas in layers/forks/flow/ops/correlation.cpp),
// and the gradients, which gather: each pixel goes through the patches that hold it. Plain or channels-last maps.
#include <cmath>
#include <limits>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

constexpr size_t kMaxMoves = 64;  // along an axis

struct Patches {
  cuda::Planes x;  // of both maps
  cuda::Planes y;
  int64_t begin[2];
  int64_t kernel;
  int64_t stride;
  bool subtracts;
  int64_t columns;  // displacements in a row of them
  int32_t down[kMaxMoves];
  int32_t across[kMaxMoves];

  __host__ __device__ int64_t Elements() const { return kernel * kernel * x.channels; }
  // The place of a pixel in its plane; -1 outside.
  __host__ __device__ int64_t Pixel(int64_t row, int64_t column) const {
    const bool is_inside = row >= 0 && row < x.size[1] && column >= 0 && column < x.size[2];
    return is_inside ? row * x.size[2] + column : -1;
  }
  template <class T>
  __host__ __device__ cuda::Wide<T> Value(const T* map, int64_t n, int64_t c, int64_t pixel) const {
    return pixel < 0 ? cuda::Wide<T>{0} : cuda::ToWide(map[x.Offset(n, c, pixel)]);
  }
  // The patch along an axis whose k-th pixel is at `at`; -1 if there is none.
  __host__ __device__ int64_t PatchAt(int axis, int64_t at, int64_t k) const {
    const int64_t from = at - begin[axis] - k;
    return from < 0 || from % stride != 0 || from / stride >= y.size[axis + 1] ? -1 : from / stride;
  }
};

template <class T>
struct CorrelationEach {
  Patches s;
  const T* a;
  const T* b;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place o = s.y.At(i);
    const int64_t down = s.down[o.c / s.columns];
    const int64_t across = s.across[o.c % s.columns];
    W sum = 0;
    for (int64_t k = 0; k < s.kernel * s.kernel; ++k) {
      const int64_t row = s.begin[0] + s.stride * o.at[1] + k / s.kernel;
      const int64_t column = s.begin[1] + s.stride * o.at[2] + k % s.kernel;
      const int64_t at_a = s.Pixel(row, column);
      const int64_t at_b = s.Pixel(row + down, column + across);
      if (at_a < 0 && at_b < 0) continue;
      for (int64_t c = 0; c < s.x.channels; ++c) {
        const W u = s.Value(a, o.n, c, at_a);
        const W v = s.Value(b, o.n, c, at_b);
        sum += s.subtracts ? fabs(u - v) : u * v;
      }
    }
    y[i] = cuda::Narrow<T>(sum / static_cast<W>(s.Elements()));
  }
};

// The gradient of map a, or of map b, whose patches lie the displacement further.
template <class T>
struct CorrelationBackwardEach {
  Patches s;
  bool is_b;
  const T* own;
  const T* other;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place p = s.x.At(i);
    const W value = cuda::ToWide(own[i]);
    W sum = 0;
    for (int64_t d = 0; d < s.y.channels; ++d) {
      const int64_t down = s.down[d / s.columns];
      const int64_t across = s.across[d % s.columns];
      const int64_t row = p.at[1] - (is_b ? down : 0);  // a's pixel of the pair
      const int64_t column = p.at[2] - (is_b ? across : 0);
      const W partner = s.Value(other, p.n, p.c, is_b ? s.Pixel(row, column) : s.Pixel(row + down, column + across));
      const W slope = !s.subtracts ? partner : value > partner ? W{1} : value < partner ? W{-1} : W{0};
      sum += slope * Received(p.n, d, row, column);
    }
    dx[i] = cuda::Narrow<T>(sum / static_cast<W>(s.Elements()));
  }
  // Returns the sum of the gradients that reach the patches which hold a's pixel (row, column).
  __host__ __device__ cuda::Wide<T> Received(int64_t n, int64_t d, int64_t row, int64_t column) const {
    cuda::Wide<T> sum = 0;
    for (int64_t j = 0; j < s.kernel; ++j) {
      const int64_t h = s.PatchAt(0, row, j);
      for (int64_t k = 0; h >= 0 && k < s.kernel; ++k) {
        const int64_t w = s.PatchAt(1, column, k);
        if (w >= 0) sum += cuda::ToWide(dy[s.y.Offset(n, d, h * s.y.size[2] + w)]);
      }
    }
    return sum;
  }
};

class CorrelationKernel final : public BoundKernel {
 public:
  CorrelationKernel(const KernelQuery& query, bool is_backward)
      : dtype_(query.inputs[0].dtype), is_backward_(is_backward) {
    const Attributes& a = query.node.attributes;
    const Ints& down = a.Get<Ints>("down");
    const Ints& across = a.Get<Ints>("across");
    patches_.x = cuda::PlanesOf(query.inputs[0]);
    patches_.y = cuda::PlanesOf(is_backward ? query.inputs[2] : query.outputs[0]);
    for (size_t i = 0; i < 2; ++i) patches_.begin[i] = a.Get<Ints>("begin")[i];
    patches_.kernel = a.Int("kernel");
    patches_.stride = a.Int("stride");
    patches_.subtracts = a.Bool("subtract");
    patches_.columns = static_cast<int64_t>(across.size());
    for (size_t i = 0; i < down.size(); ++i) patches_.down[i] = static_cast<int32_t>(down[i]);
    for (size_t i = 0; i < across.size(); ++i) patches_.across[i] = static_cast<int32_t>(across[i]);
  }
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (!is_backward_) {
        cuda::ForEach(stream(), patches_.y.Count(), CorrelationEach<T>{patches_, in<T>(0), in<T>(1), out<T>(0)});
        return;
      }
      for (size_t i = 0; i < 2; ++i) {
        cuda::ForEach(stream(), patches_.x.Count(),
                      CorrelationBackwardEach<T>{patches_, i == 1, in<T>(i), in<T>(1 - i), in<T>(2), out<T>(i)});
      }
    });
  }

 private:
  Patches patches_{};
  DType dtype_;
  bool is_backward_;
};

std::string Refuse(const KernelQuery& query) {
  for (const char* axis : {"down", "across"}) {
    const Ints& moves = query.node.attributes.Get<Ints>(axis);
    if (moves.size() > kMaxMoves) return StrCat("it has ", kMaxMoves, " displacements an axis at most");
    for (const int64_t move : moves) {
      if (std::abs(move) > std::numeric_limits<int32_t>::max()) return "its displacements have 32 bits";
    }
  }
  for (const TensorType& type : query.inputs) {
    if (type.dtype != query.inputs[0].dtype) return "its inputs must be of one type";
  }
  return cuda::RefuseUnlessImages(query);
}

}  // namespace

KernelDef CudaCorrelation() {
  return cuda::OwnRow<CorrelationKernel, false>("correlation", Refuse, cuda::ProposeImages);
}
KernelDef CudaCorrelationBackward() {
  return cuda::OwnRow<CorrelationKernel, true>("correlation_backward", Refuse, cuda::ProposeImages);
}

}  // namespace moka
