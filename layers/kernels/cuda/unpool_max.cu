// Unpooling by masks, and its gradient, over plain or channels-last images: a thread makes one element.
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"
#include "layers/kernels/cuda/launch.cuh"
#include "layers/kernels/cuda/planes.cuh"
#include "layers/kernels/cuda/refuse.h"
#include "layers/kernels/cuda/row.h"
#include "layers/kernels/cuda/types.cuh"

namespace moka {
namespace {

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
    // atomicMax on a GPU, a comparison on the host, which goes through the pixels one after another.
    int32_t* const at = winner + large.Offset(p.n, p.c, place);
    const auto own = static_cast<int32_t>(small.InPlane(p.at));
#ifdef __CUDA_ARCH__
    atomicMax(at, own);
#else
    if (own > *at) *at = own;
#endif
  }
};

// The result is written once an element, whether it has a winner or is 0, so that nothing is cleared beforehand.
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

// Every pixel that names a place takes the gradient there, also those that lost it.
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

std::string RefuseMasks(const KernelQuery& query) {
  if (std::string reason = cuda::RefuseUnlessFloat32At(query, 1); !reason.empty()) return reason;
  return cuda::RefuseUnlessImages(query);
}

}  // namespace

KernelDef CudaUnpoolMax() {
  return cuda::OwnRow<UnpoolMaxKernel, false>("unpool_max", RefuseMasks, cuda::ProposeImages);
}
KernelDef CudaUnpoolMaxBackward() {
  return cuda::OwnRow<UnpoolMaxKernel, true>("unpool_max_backward", RefuseMasks, cuda::ProposeImages);
}

}  // namespace moka
