// All-reduce algorithms, a file and a function `AllReduceAlgorithm NAME()` each, which the build finds: functions from
// (rank, size, shape of the machine) to a schedule. Each file says its rounds, the elements a rank sends and what they
// come from; tests hold them to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/schedule/schedule.h"

namespace moka {

// How ranks lie: rank r is place r % group of group r / group where an algorithm has groups (a host's ranks follow each
// other). dimensions: of a torus, fastest first; their product is the number of ranks.
struct Arrangement {
  int ranks = 1;
  int group = 1;
  std::vector<int> dimensions = {};
  int pieces = 16;  // that each part of a message travels in, where an algorithm sends pieces after each other
};

struct AllReduceAlgorithm {
  std::string_view name;
  std::string_view doc;
  // Whether an element's sum has one order wherever it lies in the message: results then do not depend on how gradients
  // are fused.
  bool has_fixed_order = false;
  bool has_groups = false;      // reads arrangement.group
  bool has_dimensions = false;  // reads arrangement.dimensions
  bool has_pieces = false;      // reads arrangement.pieces, besides groups
  // Why it cannot run on this arrangement ("group 3 does not divide 8 ranks"); empty: it can.
  std::string (*refuse)(const Arrangement&) = nullptr;
  // Requires: refuse said nothing, 0 <= rank < ranks.
  Schedule (*make)(const Arrangement&, int rank) = nullptr;
};

// Values for `refuse`: for algorithms that run anywhere, and for those whose groups must divide the ranks.
std::string RefuseNone(const Arrangement& arrangement);
std::string RefuseGroups(const Arrangement& arrangement);

// The rows of this build in no order that matters (tools/cmake/moka_rows.cmake).
std::vector<AllReduceAlgorithm> AllReduceRows();
// All of them, sorted by name.
std::span<const AllReduceAlgorithm> AllReduceAlgorithms();
// Errors: kConfig with the nearest name.
const AllReduceAlgorithm& FindAllReduce(std::string_view name);

}  // namespace moka
