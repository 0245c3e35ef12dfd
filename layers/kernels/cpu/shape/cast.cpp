// Conversion between element types, element by element; any layout, the same on both sides (zero padding stays zero).
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/half.h"
#include "core/threads/parallel.h"
#include "graph/kernel.h"
#include "layers/kernels/bound_kernel.h"

namespace moka {
namespace {

float ToWide(Half value) { return FloatOfHalf(value.bits); }
float ToWide(BFloat16 value) { return FloatOfBFloat16(value.bits); }
template <class T>
T ToWide(T value) {
  return value;
}

template <class To, class From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, BFloat16>) {
    return {BFloat16OfFloat(static_cast<float>(value))};
  } else if constexpr (std::is_same_v<To, Half>) {
    return {HalfOfFloat(static_cast<float>(value))};
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // Out of range saturates and NaN gives 0: the plain conversion would be undefined.
    constexpr auto kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr auto kHigh = static_cast<From>(std::numeric_limits<To>::max());
    if (!(value > kLow)) return std::isnan(value) ? To{0} : std::numeric_limits<To>::min();
    return value >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

using Loop = void (*)(const void* x, void* y, int64_t begin, int64_t end);

template <class From, class To>
void ConvertRange(const void* x, void* y, int64_t begin, int64_t end) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  for (int64_t i = begin; i < end; ++i) to[i] = Convert<To>(ToWide(from[i]));
}

// A loop for each pair of types, chosen when the kernel is made.
template <class From>
Loop LoopTo(DType to) {
  switch (to) {
    case DType::kFloat32: return ConvertRange<From, float>;
    case DType::kFloat64: return ConvertRange<From, double>;
    case DType::kFloat16: return ConvertRange<From, Half>;
    case DType::kBFloat16: return ConvertRange<From, BFloat16>;
    case DType::kInt64: return ConvertRange<From, int64_t>;
    case DType::kInt32: return ConvertRange<From, int32_t>;
    case DType::kUInt8: return ConvertRange<From, uint8_t>;
    case DType::kInt8: return ConvertRange<From, int8_t>;
  }
  return nullptr;
}

Loop LoopOf(DType from, DType to) {
  switch (from) {
    case DType::kFloat32: return LoopTo<float>(to);
    case DType::kFloat64: return LoopTo<double>(to);
    case DType::kFloat16: return LoopTo<Half>(to);
    case DType::kBFloat16: return LoopTo<BFloat16>(to);
    case DType::kInt64: return LoopTo<int64_t>(to);
    case DType::kInt32: return LoopTo<int32_t>(to);
    case DType::kUInt8: return LoopTo<uint8_t>(to);
    case DType::kInt8: return LoopTo<int8_t>(to);
  }
  return nullptr;
}

class CastKernel final : public BoundKernel {
 public:
  explicit CastKernel(const KernelQuery& query)
      : loop_(LoopOf(query.inputs[0].dtype, query.outputs[0].dtype)), count_(query.inputs[0].StoredCount()) {}
  void Run() override {
    ParallelFor(count_, 8192, [&](int64_t begin, int64_t end, int) { loop_(in<void>(0), out<void>(0), begin, end); });
  }

 private:
  Loop loop_;
  int64_t count_;
};

}  // namespace

KernelDef MokaCast() {
  return {
      .name = "moka",
      .op = "cast",
      .refuse = RefuseUnlessSameLayout,
      .propose = ProposeFirstLayout,
      .make = [](const KernelQuery& query) -> std::unique_ptr<Kernel> { return std::make_unique<CastKernel>(query); }};
}

}  // namespace moka
