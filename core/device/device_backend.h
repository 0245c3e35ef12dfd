// The functions that each kind of device brings to core/device/device.h: the CPU in host_device.cpp, GPUs in
// cuda_device.cpp or, where Moka is built without CUDA, refusals in no_cuda.cpp.
#pragma once

#include "core/device/device.h"
#include "core/error.h"

namespace moka {

// The host's side: events, streams and memory of the CPU and of a rehearsed GPU.
std::unique_ptr<Event> MakeHostEvent();
std::unique_ptr<Stream> MakeHostStream(const Device& device);
DeviceBuffer AllocateHostPinned(int64_t bytes);

std::unique_ptr<Event> MakeCudaEvent(int index);
std::unique_ptr<Stream> MakeCudaStream(int index);
DeviceBuffer AllocateCudaPinned(int index, int64_t bytes);

// A device has no memory left for `asked` bytes.
Error OutOfDeviceMemory(const Device& device, int64_t asked, int64_t free, int64_t total);

}  // namespace moka
