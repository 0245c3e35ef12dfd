// Local response normalisation and its gradient over plain or channels-last images (formulas in
// layers/ops/normalisation/lrn.cpp).
#include <cmath>

#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

// The window around an element: channels, or pixels of its plane (formulas in layers/ops/normalisation/lrn.cpp).
struct Neighbors {
  cuda::Planes planes;
  int64_t half;
  bool is_across;

  // Calls f(place in memory) for the window of the element at place i.
  template <class F>
  __host__ __device__ void Visit(int64_t i, F&& f) const {
    const cuda::Place p = planes.At(i);
    if (is_across) {
      const cuda::Span c = Around(p.c, planes.channels);
      for (int64_t at = c.begin; at < c.end; ++at) f(planes.Offset(p.n, at, planes.InPlane(p.at)));
      return;
    }
    const cuda::Span d = Around(p.at[0], planes.size[0]);
    const cuda::Span h = Around(p.at[1], planes.size[1]);
    const cuda::Span w = Around(p.at[2], planes.size[2]);
    for (int64_t j = d.begin; j < d.end; ++j) {
      for (int64_t k = h.begin; k < h.end; ++k) {
        for (int64_t l = w.begin; l < w.end; ++l) {
          f(planes.Offset(p.n, p.c, (j * planes.size[1] + k) * planes.size[2] + l));
        }
      }
    }
  }
  __host__ __device__ cuda::Span Around(int64_t at, int64_t size) const {
    return {at > half ? at - half : 0, at + half + 1 < size ? at + half + 1 : size};
  }
};

struct LrnFactors {
  double a;
  double k;
  double beta;
};

template <class T>
__host__ __device__ cuda::Wide<T> LrnScale(const Neighbors& near, const LrnFactors& factors, const T* x, int64_t i) {
  cuda::Wide<T> squares = 0;
  near.Visit(i, [&](int64_t j) { squares += cuda::ToWide(x[j]) * cuda::ToWide(x[j]); });
  return static_cast<cuda::Wide<T>>(factors.k) + static_cast<cuda::Wide<T>>(factors.a) * squares;
}

template <class T>
struct LrnEach {
  Neighbors near;
  LrnFactors factors;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    y[i] = cuda::Narrow<T>(cuda::ToWide(x[i]) * pow(LrnScale(near, factors, x, i), static_cast<W>(-factors.beta)));
  }
};

// The gradient needs every scale of its window, so the scales are computed once into scratch and not once for each
// neighbour.
template <class T>
struct LrnScaleEach {
  Neighbors near;
  LrnFactors factors;
  const T* x;
  cuda::Wide<T>* scale;
  __host__ __device__ void operator()(int64_t i) const { scale[i] = LrnScale(near, factors, x, i); }
};

template <class T>
struct LrnBackwardEach {
  Neighbors near;
  LrnFactors factors;
  const T* x;
  const T* dy;
  const cuda::Wide<T>* scale;
  T* dx;
  __host__ __device__ void operator()(int64_t j) const {
    using W = cuda::Wide<T>;
    const auto beta = static_cast<W>(factors.beta);
    W sum = 0;
    near.Visit(j, [&](int64_t i) { sum += cuda::ToWide(dy[i]) * cuda::ToWide(x[i]) * pow(scale[i], -beta - 1); });
    // The derivative of the windows' scales: every window that holds x_j has it squared in its sum.
    const W around = static_cast<W>(2 * factors.a) * beta * cuda::ToWide(x[j]) * sum;
    dx[j] = cuda::Narrow<T>(cuda::ToWide(dy[j]) * pow(scale[j], -beta) - around);
  }
};

class LrnKernel final : public BoundKernel {
 public:
  explicit LrnKernel(const KernelQuery& query)
      : dtype_(query.inputs[0].dtype), count_(query.inputs[0].shape.Count()), is_backward_(query.inputs.size() == 2) {
    const Attributes& a = query.node.attributes;
    const int64_t size = a.Int("size");
    near_ = {cuda::PlanesOf(query.inputs[0]), size / 2, a.String("region") == "across"};
    const int axes = near_.is_across ? 1 : query.inputs[0].shape.rank() - 2;
    factors_ = {a.Float("alpha") / std::pow(static_cast<double>(size), axes), a.Float("k"), a.Float("beta")};
  }
  int64_t scratch_bytes() const override { return is_backward_ ? count_ * int64_t{sizeof(double)} : 0; }
  void Run() override {
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (!is_backward_) {
        cuda::ForEach(stream(), count_, LrnEach<T>{near_, factors_, in<T>(0), out<T>(0)});
        return;
      }
      auto* scale = scratch<cuda::Wide<T>>();
      cuda::ForEach(stream(), count_, LrnScaleEach<T>{near_, factors_, in<T>(0), scale});
      cuda::ForEach(stream(), count_, LrnBackwardEach<T>{near_, factors_, in<T>(0), in<T>(1), scale, out<T>(0)});
    });
  }

 private:
  Neighbors near_;
  LrnFactors factors_;
  DType dtype_;
  int64_t count_;
  bool is_backward_;
};

KernelDef Row(const char* op) {
  return {
      .name = "moka",
      .op = op,
      .device = DeviceKind::kCuda,
      .refuse = cuda::RefuseUnlessImages,
      .propose = cuda::ProposeImages,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<LrnKernel>(query); }};
}

}  // namespace

KernelDef CudaLrn() { return Row("lrn"); }
KernelDef CudaLrnBackward() { return Row("lrn_backward"); }

}  // namespace moka
