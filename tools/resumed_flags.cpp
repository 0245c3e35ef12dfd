#include "tools/resumed_flags.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/process_ranks.h"
#include "tools/team_setup.h"

namespace moka {
namespace {

constexpr const char* kThreads = " threads";
constexpr const char* kProcesses = " processes";

// An empty object where the file is none: whoever opens the run tells.
nlohmann::json IdentityOf(const TrainSetup& setup) {
  try {
    const std::string text = ReadFile(setup.run_folder / "run.json");
    CheckJsonBounds(text, {});
    const nlohmann::json identity = nlohmann::json::parse(text, nullptr, false);
    if (identity.is_object()) return identity;
  } catch (const Error&) {
    return nlohmann::json::object();
  }
  return nlohmann::json::object();
}

// 0 where the file does not say.
int ThreadsIn(const nlohmann::json& identity) {
  const auto it = identity.find("threads");
  const bool is_whole = it != identity.end() && it->is_number_integer();
  return is_whole && *it >= 1 && *it <= INT32_MAX ? it->get<int>() : 0;
}

// What RanksText gave; empty where the file does not say.
std::string RanksIn(const nlohmann::json& identity) {
  const auto it = identity.find("ranks");
  return it != identity.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

void KeepThreads(const Arguments& arguments, int ranks, TrainSetup& setup) {
  const int kept = setup.solver.threads();
  const bool is_in_environment = std::getenv("OMP_NUM_THREADS") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  const bool is_given = arguments.Has("threads") || (kept == 0 && is_in_environment);
  const int now = is_given || kept == 0 ? ThreadsOfRank(arguments, ranks) : kept;
  if (setup.resume) {
    const int before = kept > 0 ? kept : ThreadsIn(IdentityOf(setup));
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
  const std::string text = RanksIn(IdentityOf(setup));
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
