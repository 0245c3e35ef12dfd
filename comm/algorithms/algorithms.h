// The rows of the table in algorithms.cpp, a file each.
#pragma once

#include "comm/algorithms/algorithm.h"

namespace moka {

// What `refuse` is for algorithms that run anywhere, and for those whose groups must divide the ranks.
std::string RefuseNone(const Arrangement& arrangement);
std::string RefuseGroups(const Arrangement& arrangement);

AllReduceAlgorithm DirectAllReduce();
AllReduceAlgorithm DoubleBinaryTreeAllReduce();
AllReduceAlgorithm HalvingDoublingAllReduce();
AllReduceAlgorithm HierarchicalAllReduce();
AllReduceAlgorithm HierarchicalRingAllReduce();
AllReduceAlgorithm RecursiveDoublingAllReduce();
AllReduceAlgorithm RingAllReduce();
AllReduceAlgorithm TorusAllReduce();
AllReduceAlgorithm TwoLevelAllReduce();

}  // namespace moka
