// Overrides of solver and net as words and flags give them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"
#include "tools/cli/command_line.h"

namespace moka {

// Overrides of solver and net as typed, and those that flags such as --iterations stand for.
std::vector<std::string> OverridesOf(const Arguments& arguments);

// Errors: kUsage for an override of the field, or of the message that it is in, beside a flag that adds to it or sets
// it. One that adds too ("+") may stand beside it.
void RefuseBesideFlag(const std::vector<std::string>& overrides, const std::string& flag, const std::string& message,
                      const std::string& field);
// The level and the stages of --level and --stage, which stand for fields of the message. Errors: as RefuseBesideFlag.
NetState StateOfFlags(const Arguments& arguments, const std::string& message = "state");
// Those flags, as verbs have them that look at one net.
std::vector<OptionSpec> StateOptionSpecs();

// Overrides split by what they speak of: "solver." and plain fields go to the solver, "net." and layer paths to the
// net.
struct SplitOverrides {
  std::vector<std::string> solver;
  std::vector<std::string> net;
};
SplitOverrides SplitByTarget(const std::vector<std::string>& overrides);
// Overrides of a verb that has no solver. Errors: kUsage for one that speaks of a solver.
std::vector<std::string> NetOverridesOf(const Arguments& arguments, std::string_view verb);

}  // namespace moka
