// Counts the heap allocations of the whole test program, by replacing operator new.
#pragma once

#include <cstdint>

namespace moka {

int64_t AllocationCount();

}  // namespace moka
