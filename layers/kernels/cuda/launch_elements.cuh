// The part that every launch needs, and the simplest launcher: one call of a functor for each element.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/device/device.h"
#include "core/error.h"
#include "core/text.h"

namespace moka::cuda {

// Fills a Hopper chip several times over; more blocks would only come and go.
inline constexpr int64_t kMaxBlocks = 132 * 16;

inline cudaStream_t NativeStream(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

// Errors: kUnavailable if the launch just made failed.
inline void CheckLaunch(const Stream& stream) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return;
  throw Error(ErrorKind::kUnavailable, {},
              StrCat(NameOf(stream.device()), ": a kernel's launch failed: ", cudaGetErrorString(status)));
}

// Elements -----------------------------------------------------------------------------------------------------------

inline constexpr int kElementThreads = 256;

// A functor that can be handed to a GPU byte by byte. The check matters as a rehearsed GPU, on the host, would copy
// anything.
template <class F>
concept Launchable = std::is_trivially_copyable_v<F>;

template <Launchable F>
__global__ void __launch_bounds__(kElementThreads) ElementKernel(F f, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * kElementThreads;
  for (int64_t i = int64_t{blockIdx.x} * kElementThreads + threadIdx.x; i < count; i += step) f(i);
}

// f(i) for i from 0 to count, in any order.
template <Launchable F>
void ForEach(Stream& stream, int64_t count, const F& f) {
  if (count == 0) return;
  if (stream.native() == nullptr) {
    stream.Rehearse([f, count] {
      for (int64_t i = 0; i < count; ++i) f(i);
    });
    return;
  }
  const int64_t blocks = std::min((count + kElementThreads - 1) / kElementThreads, kMaxBlocks);
  ElementKernel<<<static_cast<unsigned>(blocks), kElementThreads, 0, NativeStream(stream)>>>(f, count);
  CheckLaunch(stream);
}

}  // namespace moka::cuda
