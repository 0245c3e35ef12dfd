// One arena for programs that run by turns and never at once, such as those of length buckets: what a program's step
// left there is gone once another one has run. Of the CPU; the first program that is compiled makes it.
#pragma once

#include <cstdint>

#include "core/device/device.h"

namespace moka {

class SharedArena {
 public:
  // Memory for a program that needs so many bytes; null where it needs more than the first one did.
  std::byte* For(int64_t bytes) {
    if (memory_.data() == nullptr) memory_ = AllocatePinned(Device{}, bytes);
    return bytes <= memory_.bytes() ? memory_.data() : nullptr;
  }

 private:
  DeviceBuffer memory_;
};

}  // namespace moka
