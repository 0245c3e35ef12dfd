// --precision auto: the arithmetic that is the fastest here and keeps the net's accuracy.
#pragma once

#include <span>

#include "tools/measure/timed_net.h"

namespace moka {

// bfloat16 where the rule of kernels (layers/kernels/cpu/kernel_rule.h) expects it to be clearly faster than float32
// (CPU) or the GPU multiplies it; float32 elsewhere, and where the net says that it is computed so
// (default_forward_type: FLOAT). float16 is left to those who ask for it: its gradients want a scale. Logs what was
// chosen, and why. `compile` and `options` are those of the program that is to be compiled; its arithmetic is not
// looked at. Errors: those of building and compiling.
Compute AutoPrecision(std::span<const NetParameter> nets, Phase phase, const CompileOptions& compile,
                      const TimedOptions& options = {});
// The same for a net that is to be timed: where flag, solver or net say `auto`, both come to name what was chosen.
void SettlePrecision(std::span<const NetParameter> nets, Phase phase, CompileOptions& compile, TimedOptions& options);

// The arithmetic of a test: what a flag has asked for, else what the solver or the net says; `auto` is settled. Errors:
// those of PrecisionOf and AutoPrecision.
void SettleTestPrecision(bool is_asked, const SolverParameter& solver, const NetParameter& net,
                         CompileOptions& compile);

}  // namespace moka
