// The assignment problem: rows to columns, each once, at the least sum of costs. H. W. Kuhn, The Hungarian Method for
// the Assignment Problem, Naval Research Logistics 1955; by shortest augmenting paths, R. Jonker and A. Volgenant, A
// Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment Problems, Computing 1987.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moka {

// Returns the pairs (row, column) by rows: as many as the lesser of `rows` and `columns`. `costs` is [rows, columns],
// finite. Time rows x rows x columns of the lesser and the larger.
std::vector<std::pair<int64_t, int64_t>> LeastAssignment(std::span<const double> costs, int64_t rows, int64_t columns);

}  // namespace moka
