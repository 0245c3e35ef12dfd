// Ranks that train together must run one program, on one set of data, by one set of settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/communicator.h"

namespace moka {

// All ranks. Errors: kConfig on all of them, naming the first line in which two ranks differ; `what`: what a line is.
void RequireSame(Communicator& world, const std::string& lines, std::string_view what);

// One thing that ranks may have different values of.
struct RankField {
  std::string path;         // "solver.momentum": once among a rank's fields
  std::string value;        // what people read, and what is compared
  bool may_differ = false;  // a difference is told, and is no error
};

// All ranks, before anything that their settings decide: it sends texts only, a number each where all are equal. What
// may differ is logged by the first rank. Errors: kConfig on the first rank, naming each field that differs (a few at
// most), its values and the ranks that have them; kPeer with what it says on the others.
void RequireSameFields(Communicator& world, const std::vector<RankField>& fields);

// The lines of that error, for tests: `all[rank]` are the fields of a rank.
std::vector<std::string> DifferencesOf(const std::vector<std::vector<RankField>>& all, bool may_differ);

}  // namespace moka
