// Wrong labels found on a GPU. Threads leave the first one in a record in the host's pinned memory, which they address
// directly; the host reads it after the run. A run that finds none writes nothing.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "core/device/device.h"

namespace moka::cuda {

// Label and place in one number, the place in the upper half: the smallest is the first, whatever threads do.
class LabelRecord {
 public:
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  explicit LabelRecord(uint64_t* first) : first_(first) {}
  __host__ __device__ void Report(int64_t at, float value) const {
    const uint64_t key = static_cast<uint64_t>(at) << 32U | Bits(value);
#ifdef __CUDA_ARCH__
    atomicMin(reinterpret_cast<unsigned long long*>(first_), static_cast<unsigned long long>(key));
#else
    if (key < *first_) *first_ = key;
#endif
  }

 private:
  __host__ __device__ static uint32_t Bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return std::bit_cast<uint32_t>(value);
#endif
  }

  uint64_t* first_;
};

// The host's side: owned by the kernel.
class LabelFault {
 public:
  // Makes the sentence about a wrong label, given its place and its value.
  using Text = std::function<std::string(int64_t at, double value)>;

  LabelFault(const Device& device, Text text)
      : text_(std::move(text)), memory_(AllocatePinned(device, sizeof(uint64_t))) {
    *first() = LabelRecord::kNone;
  }
  LabelRecord record() const { return LabelRecord(first()); }
  // The sentence about the first wrong label since the last call; empty if there was none. Requires: the run is done.
  std::string Take() {
    const uint64_t key = std::exchange(*first(), LabelRecord::kNone);
    if (key == LabelRecord::kNone) return {};
    return text_(static_cast<int64_t>(key >> 32U), double{std::bit_cast<float>(static_cast<uint32_t>(key))});
  }

 private:
  uint64_t* first() const { return reinterpret_cast<uint64_t*>(memory_.data()); }

  Text text_;
  DeviceBuffer memory_;
};

}  // namespace moka::cuda
