// The machine's measured limits: what `moka time` compares with.
#pragma once

namespace moka {

struct Ceilings {
  double gflops = 0;    // float32 fused multiply-adds held in registers, all threads
  double copy_gbs = 0;  // read + write of arrays far larger than the caches, all threads
};

// Takes about a second. Values vary with what else the machine does.
Ceilings MeasureCeilings();

}  // namespace moka
