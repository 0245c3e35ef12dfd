// How half types run where no kernel computes in them: a kernel for float32 works on copies of the half inputs and
// outputs, so results are rounded at the op's borders. Neither fast nor lean: what tests and rehearsals of mixed
// precision on the CPU run by.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/kernel.h"

namespace moka {

// True if one of the types is float16 or bfloat16.
bool HasHalf(std::span<const TensorType> types);
// The types with float32 in place of each half type; layouts stay.
std::vector<TensorType> Widened(std::span<const TensorType> types);

// Requires: `kernel` was made for the widened types of the query. CPU.
std::unique_ptr<Kernel> MakeWidenedKernel(std::unique_ptr<Kernel> kernel, const KernelQuery& query);

}  // namespace moka
