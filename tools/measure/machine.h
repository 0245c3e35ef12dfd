// Describes this machine: the processor, its widest vectors, the library that runs its kernels.
#pragma once

#include <filesystem>
#include <string>

namespace moka {

std::string CpuName();
std::string IsaName();
std::string OnednnVersion();

// The largest magnitude of 8-bit weights that sums in 16 bits stand (graph/quantization.h).
int WeightLimit();

// Where the times of kernels measured on such a machine are kept: a file of the user's cache folder
// ($XDG_CACHE_HOME/moka, otherwise ~/.cache/moka), named by the three above. Empty without a home.
std::filesystem::path KernelTimesFile();

}  // namespace moka
