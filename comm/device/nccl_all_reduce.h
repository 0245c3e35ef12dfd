// Sums over the GPUs of all ranks by NCCL, which is loaded when it is first asked for. Built where CUDA and nccl.h are;
// no_nccl.cpp refuses elsewhere.
#pragma once

#include <memory>
#include <string>

#include "comm/device/device_all_reduce.h"
#include "comm/transport/communicator.h"

namespace moka {

// Empty, or why so many ranks of this host cannot sum on its GPUs: no GPU, no NCCL, or more ranks than GPUs
// where NCCL cannot share one.
std::string MissingNccl(int ranks);

// Returns a text that tells this rank's GPU from those of other ranks: "node7 0000:3b:00.0".
std::string PlaceOfGpu(const Device& device, const Communicator& communicator);

// The communicator must outlive it. `place`: of this rank's GPU; two ranks of one place are refused unless
// NCCL_MULTI_RANK_GPU_ENABLE is 1 and NCCL knows it (2.30). Every wait ends after the communicator's patience. Errors:
// kUnavailable without nccl.h when Moka was built; those of the library (no libnccl.so.2) come from Connect.
std::unique_ptr<DeviceAllReduce> MakeNcclAllReduce(Communicator& communicator, std::string place);

}  // namespace moka
