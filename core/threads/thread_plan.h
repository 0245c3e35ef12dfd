// How many threads the compute team has and on which CPUs they run: a pure function of what this process may use, what
// it shares with the other ranks of its box, and what the user asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moka {

// A logical CPU.
struct Cpu {
  int id = 0;       // as the system counts them
  int core = 0;     // the same for the hyper-threads of a core, different for any two cores of the machine
  int package = 0;  // the socket
};

struct CpuFacts {
  std::vector<Cpu> allowed{};         // where this process may run
  int box_cpus = 1;                   // logical CPUs that all ranks of this box have: the machine's, or the container's
  double quota = 0;                   // CPUs' worth of time that the container gets; 0: no limit
  int local_ranks = 1;                // processes of this program that a launcher started on this box
  int local_rank = 0;                 // which of them this is
  std::vector<std::string> doubts{};  // what was said of ranks and is not believed
};

struct ThreadWish {
  enum class Pin : uint8_t { kNone, kCores, kCpus };
  int threads = 0;  // 0: the default
  Pin pin = Pin::kNone;
  std::vector<int> cpus{};  // for kCpus, in the order threads take them
};

struct ThreadPlan {
  int threads = 1;            // of the team
  int cpus = 1;               // logical CPUs that all threads of this process can count on
  std::vector<int> places{};  // CPUs of the team's threads in order, then the others it may use; empty: not pinned
  std::vector<std::string> warnings{};
};

// The default is a thread a core: hyper-threads share the units that multiply. Of several ranks each gets an equal
// whole share of the cores, at least one thread, and its own slice of them (cores in order of socket and number), so
// that no two overlap. A launcher that has bound the rank to less than the box has given it its share: all of it, or
// where a rank's CPUs are several ranks' (a socket's), as many of them as its part in the box says. A quota bounds the
// default too, rounded to the nearest whole number: a half-used thread is better than an idle half of a CPU. A number
// that was asked for is taken as it is. Threads take the first hyper-thread of each core before any second one.
// Errors: kUsage if wish.cpus names a CPU twice or one that is not allowed. Requires: facts.allowed is not empty.
ThreadPlan PlanThreads(const CpuFacts& facts, const ThreadWish& wish);

}  // namespace moka
