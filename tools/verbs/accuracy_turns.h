// The trainings of `moka bench accuracy`: one child process after the other, by turns over seeds and settings.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/measure/accuracy_bench.h"

namespace moka {

struct AccuracyTurns {
  int64_t seeds = 1;                     // 1 to this
  std::filesystem::path runs;            // where trainings have their folders
  std::filesystem::path file;            // the bench's, written before and after each run
  std::vector<std::string> narration{};  // flags for `moka train` that change no result
};

// Trains what the bench has not yet, seed by seed and of each seed setting by setting. A run that was cut goes on from
// its checkpoint. Before the first one every setting is compiled without training, so that whatever `moka train`
// refuses is told at once, by its own words. Returns 0 if all have ended, 75 if it was stopped, otherwise the exit code
// of the training that could not be made. Requires: HeldSignals. Errors: kPeer for a peer that fails, kUnavailable.
int TakeTurns(AccuracyBench& bench, const AccuracyTurns& turns);

}  // namespace moka
