// Runs a job, says how it ended, and starts it again from its newest checkpoint when a rank was lost.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tools/launch/command.h"
#include "tools/launch/launched_run.h"

namespace moka {

struct RestartOptions {
  int restarts = 0;      // at most
  bool shrinks = false;  // one rank fewer each time
};

// Whether a job that ended with `code` may go better a second time: a rank was lost (76, a signal, or a code of the
// launcher's own). Errors that ranks explain (a bad file, a wrong flag, divergence) come again, and an interrupted run
// was asked to stop.
bool IsRankLost(int code);

// "a rank was ended by signal 9 (Killed)": an exit code in words. `run`: the job's run folder, where it made one.
std::string EndText(int code, const std::optional<std::filesystem::path>& run = {});

// Runs the plan until it ends for good and returns the job's last exit code. Narrates on stderr. Writes the hostfile of
// the plan anew when ranks are given up. Requires: HeldSignals. Errors: kUnavailable.
int Supervise(LaunchPlan plan, const LaunchedVerb& verb, const RestartOptions& options);

}  // namespace moka
