// Algorithms that others, of groups, are made of.
#pragma once

#include "comm/algorithms/algorithm.h"

namespace moka {

// Each is in the file of its name.
AllReduceAlgorithm DirectAllReduce();
AllReduceAlgorithm HalvingDoublingAllReduce();
AllReduceAlgorithm RingAllReduce();

}  // namespace moka
