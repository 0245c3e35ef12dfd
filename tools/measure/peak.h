// The peak arithmetic of this machine's threads, by instructions that wait for nothing.
#pragma once

#include <cstdint>

namespace moka {

// Factors of a product; sums are of 32 bits.
enum class Arithmetic : uint8_t { kFloat32, kBFloat16, kInt8 };

// Multiplications and additions a second, times 1e-9, of chains that are held in registers, all threads; best of some
// runs of `steps` each (a microsecond holds some 90). 0 where the processor has no instruction for such factors.
double MeasurePeak(Arithmetic arithmetic, int64_t steps, int repeats);

}  // namespace moka
