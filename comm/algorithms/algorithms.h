// The rows of the table in algorithms.cpp, a file each.
#pragma once

#include "comm/algorithms/algorithm.h"

namespace moka {

AllReduceAlgorithm DirectAllReduce();
AllReduceAlgorithm HalvingDoublingAllReduce();
AllReduceAlgorithm HierarchicalAllReduce();
AllReduceAlgorithm HierarchicalRingAllReduce();
AllReduceAlgorithm RecursiveDoublingAllReduce();
AllReduceAlgorithm RingAllReduce();
AllReduceAlgorithm TorusAllReduce();
AllReduceAlgorithm TwoLevelAllReduce();

}  // namespace moka
