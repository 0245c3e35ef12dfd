// Ranks that train together must run one program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace moka {

// All ranks. Errors: kConfig on all of them, naming the first line in which two ranks differ; `what`: what a line is.
void RequireSame(Communicator& world, const std::string& lines, std::string_view what);

// What must be the same on all ranks: "solver.momentum" and "0.9".
struct RankFact {
  std::string name;
  std::string value;
};
// All ranks. Errors: kConfig on all of them, naming what differs, both values and the ranks: `rank 1: solver.momentum
// is 0.8, rank 0 has 0.9`. Only a checksum travels where all agree.
void RequireSameFacts(Communicator& world, const std::vector<RankFact>& facts);

}  // namespace moka
