// The machine's measured limits: what `moka time` and `moka bench` compare with.
#pragma once

#include <string>

#include "core/types.h"

namespace moka {

struct Ceilings {
  double gflops = 0;           // float32 fused multiply-adds held in registers, all threads
  double bfloat16_gflops = 0;  // the same of bfloat16, added in float32; 0: the processor has no such instruction
  double int8_gops = 0;        // the same of 8-bit integers, added in 32 bits; likewise
  double copy_gbs = 0;         // read + write of arrays far larger than the caches, all threads
};

// Bandwidths beside the copy's, of the same arrays unless said, all threads.
struct Bandwidths {
  double read_gbs = 0;
  double in_place_gbs = 0;  // read + write of the same lines, as an activation in place has it
  double cached_gbs = 0;    // in place over 256 KiB a thread, which a core's own caches hold
};

// Takes about a second. Values vary with what else the machine does.
Ceilings MeasureCeilings();
// Operations a second, times 1e-9, that multiplying factors of this type may reach: where the processor has no
// instruction for it they are computed as float32.
double PeakFor(const Ceilings& ceilings, DType factors);
// "345 GFLOP/s float32, 690 bfloat16, 1,380 8-bit integers": those that there are.
std::string PeaksText(const Ceilings& ceilings);
// Takes about a second, too.
Bandwidths MeasureBandwidths();

}  // namespace moka
