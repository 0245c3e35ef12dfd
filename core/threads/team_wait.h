// How threads of the team wait for each other. OpenMP's runtime lets a waiting thread spin before it sleeps; by default
// GCC's spins for some 16 milliseconds, which costs nothing on an idle machine and, where another program wants the
// cores, is five to twenty times the work: the thread that is waited for has been descheduled, and its core's time goes
// into spinning. Sleeping at once costs half as much again on an idle machine, as regions follow each other in tens of
// microseconds. So
//
//   1. a process starts itself again with GOMP_SPINCOUNT for some 200 microseconds (core/threads/team.h), unless the
//      user has said how to wait; measured: as quick as the default on an idle machine;
//   2. while the threads are seen to be descheduled, the runtime is made to hardly spin at all (MindLoad), as it does
//      by itself where a process has more threads of teams than CPUs: threads that do nothing are added to them. Not
//      where the team is so much smaller than the machine that it would take more than 64 of them;
//   3. meanwhile a thread that was waited for is let in sooner (SliceProcess), and a process whose team is as large as
//      the machine gives half of the CPUs to the others where that is better for it (core/threads/team_gathering.h).
//
// None changes a result: the team's size, which bits may depend on, stays.
#pragma once

#include <cstdint>
#include <string>

namespace moka {

// How long a thread spins for others before it sleeps.
constexpr double kSpinMicros = 200;

// Spins, as the runtime counts them, of about `micros` microseconds on this CPU.
int64_t SpinsFor(double micros);

// Whether the user's environment says how threads wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT, KMP_BLOCKTIME); false where
// Restart has set it.
bool IsWaitSetByUser();

// Looks, a few times a second at most, whether the calling thread is descheduled for others, and makes the runtime spin
// less, and the team keep fewer CPUs, or both as before; not where the user has set how threads wait. Called before
// each run of a program; any thread.
void MindLoad();
// From now on only other programs make the machine a busy one, not this process's own threads: a server's connections
// run while its team has nothing to do, and a team that sleeps between the layers of a small net takes three times as
// long. Not where a container's quota is the limit, which its own threads use up, too.
void MindOthersAlone();
// Whether the runtime spins less now; for tests.
bool IsBusy();

// "spins 200 us, then sleeps", or what the user has set.
std::string WaitText();

}  // namespace moka
