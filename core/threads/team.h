// The compute team as one process has it: its share of this box, and where its threads run. Pinning is left to the
// OpenMP runtime (OMP_PLACES), which alone sees every thread it makes: it ends threads of a team and makes new ones
// whenever regions of different sizes follow each other, also inside libraries. It reads where to put them before
// main() and binds the main thread too, so
//
//   1. to pin, and to say how long threads spin for each other (core/threads/team_wait.h), the process starts itself
//      again with those variables (Restart);
//   2. threads made by the main thread would inherit its one CPU: those beside the team call LeaveTeamCpus first.
#pragma once

#include <cstdint>
#include <vector>

#include "core/threads/thread_plan.h"

namespace moka {

// Returns the CPUs that this process has, found at the first call. Never changes: SetThreadCount does not concern it.
const CpuFacts& ProcessCpus();

// Logical CPUs that threads beside a team can count on: of ThreadPlan::cpus what a rank has where several share this
// process.
int CpuShare();
// fork() copies no threads, and a team that was there before would be waited for in the child for ever: from now on a
// thread that forks ends its team first, and parent and child make theirs anew. Costs a fork the team's start.
void KeepTeamAcrossForks();
// How many ranks, each with a team of its own, share this process from now on. Requires: ranks >= 1.
void SetRanksHere(int ranks);

// Lets the calling thread run wherever this process may. Does nothing where threads are not pinned.
void LeaveTeamCpus();

// Whether the environment says where OpenMP's threads run, by a variable of OpenMP's or of its runtimes'.
bool IsPlacedByUser();
// Whether the OpenMP runtime binds threads, for the user or for Restart.
bool HasPlaces();

// The settings that the OpenMP runtime reads before main().
struct TeamWish {
  std::vector<int> places;  // team thread i runs on places[i]; empty: anywhere
  int64_t spins = 0;        // of a thread that waits, before it sleeps; 0: as the runtime has it
};
// Starts this program again in the same process, with the same arguments and the wish in its environment, which
// programs that it starts do not inherit. Returns only if the system refuses. Requires: a wish for something; no
// thread but the main one, nothing read or written yet.
void Restart(const TeamWish& wish);
// Whether this process is one that Restart has started.
bool IsRestarted();
// Whether it was started with places, and with how many spins (0: none).
bool IsPinned();
int64_t OwnSpins();

// Where each thread of the team may run, in order.
std::vector<std::vector<int>> TeamCpus();

}  // namespace moka
