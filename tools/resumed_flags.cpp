#include "tools/resumed_flags.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/parallel.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr const char* kThreads = " threads";
constexpr const char* kProcesses = " processes";

nlohmann::json IdentityOf(const TrainSetup& setup) {
  try {
    return nlohmann::json::parse(ReadFile(setup.run_folder / "run.json"), nullptr, false);
  } catch (const Error&) {
    return {};  // whoever opens the run tells
  }
}

}  // namespace

void KeepThreads(const Arguments& arguments, TrainSetup& setup) {
  const int kept = setup.solver.threads();
  const bool is_in_environment = std::getenv("OMP_NUM_THREADS") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (!arguments.Has("threads") && (kept > 0 || !is_in_environment)) {
    if (!setup.resume || kept > 0) return;
    const nlohmann::json identity = IdentityOf(setup);
    const int before = identity.is_object() ? identity.value("threads", 0) : 0;
    if (before > 0 && before != ThreadCount()) {
      LogWarning(StrCat("the run was started with ", before, " threads and goes on with ", ThreadCount(),
                        ": not bit for bit; --threads=", before, " keeps them"));
    }
    return;
  }
  const int now = ThreadCount();
  if (setup.resume && kept > 0 && kept != now) {
    LogWarning(
        StrCat("--threads=", now, " is not what the run was started with (", kept, "): it may not go on bit for bit"));
  }
  setup.solver.set_threads(now);
}

std::string RanksText(int ranks, bool are_threads) { return StrCat(ranks, are_threads ? kThreads : kProcesses); }

Arguments WithRanksOfRun(const Arguments& arguments, const TrainSetup& setup, int launched) {
  if (!setup.resume) return arguments;
  const nlohmann::json identity = IdentityOf(setup);
  const std::string text = identity.is_object() ? identity.value("ranks", std::string()) : std::string();
  const int before = std::atoi(text.c_str());
  if (before == 0) return arguments;
  Arguments own = arguments;
  const bool names_devices = arguments.Has("device") || arguments.Has("gpu");
  if (launched == 0 && before > 1 && text.ends_with(kThreads) && !arguments.Has("ranks") && !names_devices) {
    LogInfo(StrCat("--ranks=", before, ", as the run was started"));
    own.options["ranks"] = std::to_string(before);
    return own;
  }
  const int now = launched > 0 ? launched : static_cast<int>(own.Int("ranks", 1, 1, INT32_MAX));
  if (now == before || (names_devices && !arguments.Has("ranks"))) return own;
  LogWarning(StrCat("the run was started with ", text, " as ranks and goes on with ", now,
                    ": equal but for rounding, not bit for bit"));
  return own;
}

}  // namespace moka
