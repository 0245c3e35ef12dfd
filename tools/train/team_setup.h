// The compute team by the flags --threads and --pin, the environment and the machine.
#pragma once

#include "tools/cli/command_line.h"

namespace moka {

// Sets the number of threads, how they wait for each other and, with --pin, where they run; for the last two the
// process starts itself again, once; for the first of these only where the team `computes`. To be called before
// anything is read or written. Errors: kUsage naming the flag; when --pin contradicts OMP_PLACES and the like.
void SetUpTeam(const Arguments& arguments, bool computes);

// Whether OMP_NUM_THREADS asks for a number of threads; words that are none are passed over.
bool HasThreadsInEnvironment();

// For `ranks` ranks that are threads of this process: each gets an equal whole share of it, at least one thread.
// Returns how many threads a rank's team has: those that --threads or the environment ask for, as a process of its own
// has them, or its share. Errors: kUsage where threads are pinned, as a place would be of one thread of each rank.
int SetUpTeams(const Arguments& arguments, int ranks);

// The same number without setting anything up. Requires: SetUpTeam was called.
int ThreadsOfRank(const Arguments& arguments, int ranks);

// "2 threads", with the CPUs they are pinned to.
std::string TeamText();

}  // namespace moka
