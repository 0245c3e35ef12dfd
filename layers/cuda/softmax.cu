// Softmax along an axis and its gradient, one row of threads a line or, where lines lie side by side, a thread.
#include "core/text.h"
#include "layers/bound_kernel.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/launch.cuh"
#include "layers/cuda/softmax_state.cuh"

namespace moka {
namespace {

template <class T>
struct SoftmaxLine : cuda::SoftmaxState<T> {
  using State = typename cuda::SoftmaxState<T>::State;
  T* y;

  __host__ __device__ void Write(int64_t line, int64_t c, const State& s) const {
    y[this->lines.Offset(line, c)] = cuda::Narrow<T>(this->Probability(line, c, s));
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
        cuda::ForEachLine(stream(), lines_, SoftmaxBackwardLine<T>{lines_, in<T>(0), in<T>(1), out<T>(0)});
      } else {
        cuda::ForEachLine(stream(), lines_, SoftmaxLine<T>{{lines_, in<T>(0)}, out<T>(0)});
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
