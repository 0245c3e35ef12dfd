// Softmax along an axis and its gradient, one row of threads a line: the largest value and the sum are found in one
// sweep, the running sum being scaled when a larger value comes (Milakov & Gimelshein, "Online normalizer calculation
// for softmax", 2018).
#include <cmath>

#include "core/text.h"
#include "layers/bound_kernel.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/launch.cuh"
#include "layers/cuda/line.cuh"
#include "layers/cuda/types.cuh"

namespace moka {
namespace {

template <class T>
struct SoftmaxLine {
  cuda::LineMap lines;
  const T* x;
  T* y;

  using W = cuda::Wide<T>;
  struct State {
    W max;
    W sum;  // of exp(x - max)
  };
  __host__ __device__ State Start() const { return {-INFINITY, 0}; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& s) const {
    Join(s, {cuda::ToWide(x[lines.Offset(line, c)]), 1});
  }
  __host__ __device__ static void Join(State& s, const State& other) {
    if (other.sum == 0) return;
    if (other.max > s.max) {
      s.sum = s.sum == 0 ? other.sum : s.sum * exp(s.max - other.max) + other.sum;
      s.max = other.max;
    } else if (s.max == other.max) {
      s.sum += other.sum;  // both may be infinite
    } else {
      s.sum += other.sum * exp(other.max - s.max);
    }
  }
  __host__ __device__ void Write(int64_t line, int64_t c, const State& s) const {
    const int64_t i = lines.Offset(line, c);
    y[i] = cuda::Narrow<T>(exp(cuda::ToWide(x[i]) - s.max) / s.sum);
  }
  __host__ __device__ void Finish(int64_t, const State&) const {}
};

// dx = y * (dy - sum of y*dy).
template <class T>
struct SoftmaxBackwardLine {
  cuda::LineMap lines;
  const T* y;
  const T* dy;
  T* dx;

  using State = cuda::Wide<T>;
  __host__ __device__ State Start() const { return 0; }
  __host__ __device__ void Add(int64_t line, int64_t c, State& dot) const {
    const int64_t i = lines.Offset(line, c);
    dot += cuda::ToWide(y[i]) * cuda::ToWide(dy[i]);
  }
  __host__ __device__ static void Join(State& dot, const State& other) { dot += other; }
  __host__ __device__ void Write(int64_t line, int64_t c, const State& dot) const {
    const int64_t i = lines.Offset(line, c);
    dx[i] = cuda::Narrow<T>(cuda::ToWide(y[i]) * (cuda::ToWide(dy[i]) - dot));
  }
  __host__ __device__ void Finish(int64_t, const State&) const {}
};

class SoftmaxKernel final : public BoundKernel {
 public:
  explicit SoftmaxKernel(const KernelQuery& query)
      : lines_(cuda::LinesOf(query)), dtype_(query.inputs[0].dtype), is_backward_(query.inputs.size() == 2) {}

  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (is_backward_) {
        cuda::ForEachRow(stream(), lines_.Count(), lines_.size,
                         SoftmaxBackwardLine<T>{lines_, in<T>(0), in<T>(1), out<T>(0)});
      } else {
        cuda::ForEachRow(stream(), lines_.Count(), lines_.size, SoftmaxLine<T>{lines_, in<T>(0), out<T>(0)});
      }
    });
  }

 private:
  cuda::LineMap lines_;
  DType dtype_;
  bool is_backward_;
};

std::unique_ptr<Kernel> Make(const KernelQuery& query) { return std::make_unique<SoftmaxKernel>(query); }

}  // namespace

KernelDef CudaSoftmax() {
  return {.name = "moka", .op = "softmax", .device = DeviceKind::kCuda, .refuse = RefuseUnlessPlain, .make = Make};
}

KernelDef CudaSoftmaxBackward() {
  return {
      .name = "moka", .op = "softmax_backward", .device = DeviceKind::kCuda, .refuse = RefuseUnlessPlain, .make = Make};
}

}  // namespace moka
