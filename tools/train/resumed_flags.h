// Flags that change the bits of what a training computes and that a resumed run keeps: its threads and its ranks. What
// else does is kept in its solver (--precision, --seed) and with its kernels (tools/train/run_kernels.h).
#pragma once

#include "tools/cli/command_line.h"
#include "tools/train/train_setup.h"

namespace moka {

// The threads of the words, the solver or the environment go into the solver, from which a resumed run takes them
// unless the words say otherwise, which is told. `ranks`: those of this process, which share its CPUs. Before the run
// is opened.
void KeepThreads(const Arguments& arguments, int ranks, TrainSetup& setup);

// --ranks as the run that is resumed had it, if the words do not give it. Of a run whose ranks were processes, and
// where another number is given, it is told that the run may not go on bit for bit. `launched`: ranks of the launcher
// that started this process, 0 if none did.
Arguments WithRanksOfRun(const Arguments& arguments, const TrainSetup& setup, int launched);

// Returns the text that run.json keeps for WithRanksOfRun.
std::string RanksText(int ranks, bool are_threads);

}  // namespace moka
