// Tells what half precision brings on this CPU: for the line that says where it is emulated, and for `auto`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/program_report.h"

namespace moka {

struct HalfOutlook {
  double speedup = 1;           // of a run in float32, by counted work: as right as a rule of shapes is
  int64_t converted = 0;        // steps that run by kernels for float32, between conversions
  int64_t widened = 0;          // products whose factors are half, and whose arithmetic is float32
  std::string converted_ops{};  // "convolution, lstm_forward"
};

// Compares a program in half precision with the same one in float32, both for a CPU.
HalfOutlook OutlookOf(std::span<const StepReport> half, std::span<const StepReport> wide);
// Compares it with its own kernels on float32, where that program is not at hand. All is 0, and the speedup 1, for a
// program without half types.
HalfOutlook OutlookOf(std::span<const StepReport> steps);

// "3 steps convert to float32 and back (convolution); expect 0.7 times the speed of float32"; empty where nothing is
// emulated.
std::string EmulationText(const HalfOutlook& outlook);

// Says so of a program's steps, once in a process: a warning where float32 is faster.
void TellEmulation(std::span<const StepReport> steps);

}  // namespace moka
