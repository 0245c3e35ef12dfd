// Ranks that an MPI launcher has started (mpirun, srun with PMIx).
#pragma once

#include <memory>
#include <string>

#include "comm/transport/communicator.h"

namespace moka {

struct WorldOptions {
  std::string program = {};   // what this rank runs, such as "moka 0.1.0 train": the same on all, or they are refused
  bool shares_memory = true;  // ranks of a host speak through its memory; false: through MPI like the others
};

// Whether a launcher has started this process as one of several ranks: read from its environment, without MPI.
bool IsLaunched();
// The place of this process among those the launcher has started, and their number, as the environment has them; -1 and
// 1 where it does not say.
int LaunchedRank();
int LaunchedRanks();

// Whether OpenWorld has been called.
bool HasOpenedWorld();

// Returns the name that this host gives itself.
std::string HostName();

// The place of this rank among those of its host, from 0: the number of its GPU where each has one of its own.
int LocalRank(const Communicator& world);

// Initialises MPI and returns this process's communicator; MPI is finalised at the end of the process. Once a process.
// Ranks that are late are waited for, which is said. Errors: kUnavailable if this moka was built without MPI, or MPI's
// library or what else of the machine is missing; kConfig naming the rank that runs another program.
std::unique_ptr<Communicator> OpenWorld(const WorldOptions& options = {});

}  // namespace moka
