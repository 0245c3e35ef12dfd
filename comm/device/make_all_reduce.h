// The choice of the sums that a device has: NCCL's on GPUs, those of a schedule on a rehearsed one.
#pragma once

#include <memory>

#include "comm/device/device_all_reduce.h"
#include "comm/transport/communicator.h"
#include "core/device/device.h"

namespace moka {

// For a device that is no CPU. The communicator must outlive it. Errors: kUnavailable if this moka was built without
// NCCL and the device is a GPU.
std::unique_ptr<DeviceAllReduce> MakeDeviceAllReduce(const Device& device, Communicator& communicator);

}  // namespace moka
