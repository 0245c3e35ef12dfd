// Chooses the device that a command computes on.
#pragma once

#include <string_view>

#include "core/device/device.h"
#include "proto/moka.pb.h"
#include "tools/cli/command_line.h"

namespace moka {

// --device=NAME (cpu, gpu, gpu:1, rehearsal) or Caffe's --gpu=N; else what the solver says (solver_mode, device_id);
// else the first GPU. Of several ranks on a host "gpu", and no name, take the GPU of the rank's place there, from the
// first again where there are fewer. Where nothing on the command line asks for a GPU and there is none, the CPU, which
// is said if the solver names solver_mode: GPU. Without either flag, --int8 is computed on the CPU. Errors: kUsage for
// another name or several GPUs, kUnavailable for a GPU that is not there.
Device DeviceOf(const Arguments& arguments, const SolverParameter* solver = nullptr, int local_rank = 0);

}  // namespace moka
