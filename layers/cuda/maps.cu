// Maps made from the neighbourhood of each pixel: local response normalisation, bilinear interpolation and unpooling by
// masks, with their gradients, over plain or channels-last images.
#include <cmath>

#include "layers/bound_kernel.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/launch.cuh"
#include "layers/cuda/planes.cuh"
#include "layers/cuda/refuse.h"
#include "layers/cuda/types.cuh"
#include "layers/ops/segmentation/taps.h"

namespace moka {
namespace {

// lrn
// ------------------------------------------------------------------------------------------------------------------

// The window around an element: channels, or pixels of its plane (formulas in layers/ops/lrn.cpp).
struct Neighbours {
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
__host__ __device__ cuda::Wide<T> LrnScale(const Neighbours& near, const LrnFactors& factors, const T* x, int64_t i) {
  cuda::Wide<T> squares = 0;
  near.Visit(i, [&](int64_t j) { squares += cuda::ToWide(x[j]) * cuda::ToWide(x[j]); });
  return static_cast<cuda::Wide<T>>(factors.k) + static_cast<cuda::Wide<T>>(factors.a) * squares;
}

template <class T>
struct LrnEach {
  Neighbours near;
  LrnFactors factors;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    y[i] = cuda::Narrow<T>(cuda::ToWide(x[i]) * pow(LrnScale(near, factors, x, i), static_cast<W>(-factors.beta)));
  }
};

template <class T>
struct LrnScaleEach {
  Neighbours near;
  LrnFactors factors;
  const T* x;
  cuda::Wide<T>* scale;
  __host__ __device__ void operator()(int64_t i) const { scale[i] = LrnScale(near, factors, x, i); }
};

template <class T>
struct LrnBackwardEach {
  Neighbours near;
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
  Neighbours near_;
  LrnFactors factors_;
  DType dtype_;
  int64_t count_;
  bool is_backward_;
};

// interpolate
// ----------------------------------------------------------------------------------------------------------

template <class T>
struct InterpolateEach {
  cuda::Planes small;
  cuda::Planes large;
  const T* x;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    using W = cuda::Wide<T>;
    const cuda::Place p = large.At(i);
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

// What point i of `out` takes of point `at` of `in`.
__host__ __device__ inline double WeightOf(int64_t at, int64_t i, int64_t in, int64_t out) {
  const Tap tap = AlignedTap(i, in, out);
  return (tap.low == at ? 1 - tap.weight : 0) + (tap.high == at ? tap.weight : 0);
}

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

// unpool_max
// -----------------------------------------------------------------------------------------------------------

// The place in the large plane that a mask names, or -1.
__host__ __device__ inline int64_t PlaceNamed(float mask, int64_t plane) {
  return mask >= 0 && mask < static_cast<float>(plane) ? static_cast<int64_t>(mask) : -1;
}

struct ClearEach {
  int32_t* winner;
  __host__ __device__ void operator()(int64_t i) const { winner[i] = -1; }
};

// The last pixel of the small plane that names a place wins it; the largest of them in any order of threads.
struct WinnerEach {
  cuda::Planes small;
  cuda::Planes large;
  const float* mask;
  int32_t* winner;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t place = PlaceNamed(mask[i], large.PlaneSize());
    if (place < 0) return;
    const cuda::Place p = small.At(i);
    int32_t* const at = winner + large.Offset(p.n, p.c, place);
    const auto own = static_cast<int32_t>(small.InPlane(p.at));
#ifdef __CUDA_ARCH__
    atomicMax(at, own);
#else
    if (own > *at) *at = own;
#endif
  }
};

template <class T>
struct UnpoolMaxEach {
  cuda::Planes small;
  cuda::Planes large;
  const T* x;
  const int32_t* winner;
  T* y;
  __host__ __device__ void operator()(int64_t i) const {
    const cuda::Place p = large.At(i);
    y[i] = winner[i] < 0 ? cuda::Narrow<T>(0) : x[small.Offset(p.n, p.c, winner[i])];
  }
};

template <class T>
struct UnpoolMaxBackwardEach {
  cuda::Planes small;
  cuda::Planes large;
  const T* dy;
  const float* mask;
  T* dx;
  __host__ __device__ void operator()(int64_t i) const {
    const int64_t place = PlaceNamed(mask[i], large.PlaneSize());
    const cuda::Place p = small.At(i);
    dx[i] = place < 0 ? cuda::Narrow<T>(0) : dy[large.Offset(p.n, p.c, place)];
  }
};

class UnpoolMaxKernel final : public BoundKernel {
 public:
  UnpoolMaxKernel(const KernelQuery& query, bool is_backward)
      : small_(cuda::PlanesOf(query.inputs[1])),
        large_(cuda::PlanesOf(is_backward ? query.inputs[0] : query.outputs[0])),
        dtype_(query.inputs[0].dtype),
        is_backward_(is_backward) {}
  int64_t scratch_bytes() const override { return is_backward_ ? 0 : large_.Count() * int64_t{sizeof(int32_t)}; }
  void Run() override {
    auto* winner = scratch<int32_t>();
    if (!is_backward_) {
      cuda::ForEach(stream(), large_.Count(), ClearEach{winner});
      cuda::ForEach(stream(), small_.Count(), WinnerEach{small_, large_, in<float>(1), winner});
    }
    cuda::WithFloat(dtype_, [&]<class T>() {
      if (is_backward_) {
        cuda::ForEach(stream(), small_.Count(),
                      UnpoolMaxBackwardEach<T>{small_, large_, in<T>(0), in<float>(1), out<T>(0)});
      } else {
        cuda::ForEach(stream(), large_.Count(), UnpoolMaxEach<T>{small_, large_, in<T>(0), winner, out<T>(0)});
      }
    });
  }

 private:
  cuda::Planes small_;
  cuda::Planes large_;
  DType dtype_;
  bool is_backward_;
};

std::string RefuseUnpoolMax(const KernelQuery& query) {
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 1); !reason.empty()) return reason;
  return cuda::RefuseUnlessImages(query);
}

KernelDef Row(const char* op, decltype(KernelDef::refuse) refuse, decltype(KernelDef::make) make) {
  return {.name = "moka",
          .op = op,
          .device = DeviceKind::kCuda,
          .refuse = refuse,
          .propose = cuda::ProposeImages,
          .make = make};
}

std::unique_ptr<Kernel> MakeLrn(const KernelQuery& query) { return std::make_unique<LrnKernel>(query); }

template <class K, bool kBackward>
std::unique_ptr<Kernel> Make(const KernelQuery& query) {
  return std::make_unique<K>(query, kBackward);
}

}  // namespace

KernelDef CudaInterpolate() { return Row("interpolate", cuda::RefuseUnlessImages, Make<InterpolateKernel, false>); }
KernelDef CudaInterpolateBackward() {
  return Row("interpolate_backward", cuda::RefuseUnlessImages, Make<InterpolateKernel, true>);
}
KernelDef CudaLrn() { return Row("lrn", cuda::RefuseUnlessImages, MakeLrn); }
KernelDef CudaLrnBackward() { return Row("lrn_backward", cuda::RefuseUnlessImages, MakeLrn); }
KernelDef CudaUnpoolMax() { return Row("unpool_max", RefuseUnpoolMax, Make<UnpoolMaxKernel, false>); }
KernelDef CudaUnpoolMaxBackward() { return Row("unpool_max_backward", RefuseUnpoolMax, Make<UnpoolMaxKernel, true>); }

}  // namespace moka
