// The command lines that start ranks: what mpirun and srun are told, and why each flag is there.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/hosts.h"

namespace moka {

// The commands that are to be started, and where.
struct LaunchPlan {
  bool uses_srun = false;
  std::string program;  // mpirun's or srun's path
  std::string moka;     // this program's path, the same on every host
  int ranks = 1;
  std::vector<HostSlots> hosts;
  std::string hostfile;  // path; empty: the hosts stand in the command line
  std::string network;   // "10.0.0.0/24"; empty: MPI's own choice
  bool is_root = false;
  int nodes = 0;                   // of a Slurm job; 0: the launcher's choice
  int cpus_per_task = 0;           // likewise
  std::vector<std::string> words;  // what each rank runs, after "moka": a verb and its arguments
};

// Whether mpirun has to be told where ranks run.
bool NeedsHosts(const LaunchPlan& plan);

// mpirun -n RANKS ... moka VERB ...: Open MPI 4.1. Moka places its own threads, so ranks are bound to nothing; more
// ranks than CPUs is a user's choice; root is allowed where root launches; and MPI's messages and its own connections
// keep to one network.
std::vector<std::string> MpirunWords(const LaunchPlan& plan);

// srun -n RANKS ... moka VERB ...: Debian's Open MPI speaks PMIx with Slurm.
std::vector<std::string> SrunWords(const LaunchPlan& plan);

// The one of the two that the plan is for.
std::vector<std::string> LaunchWords(const LaunchPlan& plan);

// Words as a line that a shell splits into the same words.
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace moka
