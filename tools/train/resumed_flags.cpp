// Threads and ranks of the first session are kept as texts in run.json and taken again where a resume names none.
#include "tools/train/resumed_flags.h"

#include <cstdlib>

#include "core/log.h"
#include "core/text.h"
#include "optim/run/run_identity.h"
#include "tools/train/process_ranks.h"
#include "tools/train/team_setup.h"

namespace moka {
namespace {

constexpr const char* kThreads = " threads";
constexpr const char* kProcesses = " processes";

// Returns the text that RanksText gave; empty where the file does not have it.
std::string RanksIn(const RunIdentity& identity) {
  const auto it = identity.more.find("ranks");
  return it == identity.more.end() ? std::string() : it->second;
}

}  // namespace

void KeepThreads(const Arguments& arguments, int ranks, TrainSetup& setup) {
  const int kept = setup.solver.threads();
  const bool is_given = arguments.Has("threads") || (kept == 0 && HasThreadsInEnvironment());
  const int now = is_given || kept == 0 ? ThreadsOfRank(arguments, ranks) : kept;
  if (setup.resume) {
    const int before = kept > 0 ? kept : setup.before.threads;
    if (before > 0 && before != now) {
      LogWarning(StrCat("the run was started with ", before, before == 1 ? " thread" : " threads", " and goes on with ",
                        now, ": it may not go on bit for bit; --threads=", before, " keeps them"));
    }
  }
  if (is_given) setup.solver.set_threads(now);
}

std::string RanksText(int ranks, bool are_threads) { return StrCat(ranks, are_threads ? kThreads : kProcesses); }

Arguments WithRanksOfRun(const Arguments& arguments, const TrainSetup& setup, int launched) {
  if (!setup.resume) return arguments;
  const std::string text = RanksIn(setup.before);
  const int before = std::atoi(text.c_str());
  if (before == 0) return arguments;
  Arguments own = arguments;
  const bool is_told = arguments.Has("ranks") || ListsDevices(arguments);
  if (launched == 0 && before > 1 && text.ends_with(kThreads) && !is_told) {
    LogInfo(StrCat("--ranks=", before, ", as the run was started"));
    own.options["ranks"] = std::to_string(before);
  }
  const int now = launched > 0 ? launched : RanksOfProcess(own, setup.solver).count;
  if (now != before) {
    LogWarning(StrCat("the run was started with ", text, " as ranks and goes on with ", now,
                      ": equal but for rounding, not bit for bit"));
  }
  return own;
}

}  // namespace moka
