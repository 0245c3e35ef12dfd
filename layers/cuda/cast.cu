// Conversion between element types, element by element; any layout, the same on both sides.
#include <cmath>
#include <limits>

#include "layers/bound_kernel.h"
#include "layers/cuda/kernels.h"
#include "layers/cuda/launch.cuh"
#include "layers/cuda/types.cuh"

namespace moka {
namespace {

template <class To, class From>
__host__ __device__ To Convert(From value) {
  if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    // Out of range saturates and NaN gives 0: the plain conversion would be undefined.
    constexpr auto kLow = static_cast<double>(std::numeric_limits<To>::min());
    constexpr auto kHigh = static_cast<double>(std::numeric_limits<To>::max());
    const auto wide = static_cast<double>(cuda::ToWide(value));
    if (!(wide > kLow)) return wide <= kLow ? std::numeric_limits<To>::min() : To{0};
    return wide >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(wide);
  } else if constexpr (std::is_integral_v<To> || std::is_same_v<To, double>) {
    return static_cast<To>(value);
  } else {
    return cuda::Narrow<To>(static_cast<float>(value));
  }
}

template <class From, class To>
struct CastEach {
  const From* x;
  To* y;
  __host__ __device__ void operator()(int64_t i) const { y[i] = Convert<To>(x[i]); }
};

class CastKernel final : public BoundKernel {
 public:
  explicit CastKernel(const KernelQuery& query)
      : from_(query.inputs[0].dtype), to_(query.outputs[0].dtype), count_(query.inputs[0].StoredCount()) {}

  void Run() override {
    cuda::WithType(from_, [&]<class From>() {
      cuda::WithType(to_, [&]<class To>() {
        cuda::ForEach(stream(), count_, CastEach<From, To>{in<From>(0), out<To>(0)});
      });
    });
  }

 private:
  DType from_;
  DType to_;
  int64_t count_;
};

}  // namespace

KernelDef CudaCast() {
  return {
      .name = "moka",
      .op = "cast",
      .device = DeviceKind::kCuda,
      .refuse = RefuseUnlessSameLayout,
      .propose = ProposeFirstLayout,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<CastKernel>(query); }};
}

}  // namespace moka
