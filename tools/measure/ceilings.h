// The machine's measured limits: what `moka time` and `moka bench` compare with.
#pragma once

#include <cstdint>

namespace moka {

struct Ceilings {
  double gflops = 0;    // float32 fused multiply-adds held in registers, all threads
  double copy_gbs = 0;  // read + write of arrays far larger than the caches, all threads
};

// Bandwidths beside the copy's, of the same arrays unless said, all threads.
struct Bandwidths {
  double read_gbs = 0;
  double in_place_gbs = 0;  // read + write of the same lines, as an activation in place has it
  double cached_gbs = 0;    // in place over 256 KiB a thread, which a core's own caches hold
};

// The first of them alone, best of some runs of `steps` each (a microsecond holds some 90).
double MeasureGflops(int64_t steps, int repeats);
// Takes about a second. Values vary with what else the machine does.
Ceilings MeasureCeilings();
// The same.
Bandwidths MeasureBandwidths();

}  // namespace moka
