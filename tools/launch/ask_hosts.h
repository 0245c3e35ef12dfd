// Asks every host of a launch for its facts: this one directly, others through ssh, the nodes of a Slurm job through
// srun.
#pragma once

#include <string>
#include <vector>

#include "tools/launch/host_facts.h"
#include "tools/launch/hosts.h"

namespace moka {

struct AskOptions {
  std::string ssh = "ssh";    // the program that runs a command on another host
  std::string srun = "srun";  // and the one that runs it on every node of a Slurm job
  std::string moka;           // this program's path, which must be the same everywhere
  double timeout_s = 30;
};

// The facts of each host, in order. A host that does not answer has `missing` filled in.
std::vector<HostFacts> AskHosts(const std::vector<HostSlots>& hosts, const AskOptions& options);

// The facts of `nodes` nodes of the Slurm job that this process is in, by name. Errors: kUnavailable when srun fails.
std::vector<HostFacts> AskNodes(int nodes, const AskOptions& options);

// Each host but this tries to reach the address that every other host has in the network; what they could not reach
// lands in `unreached`. `addresses`: one a host.
void ProbePairs(const std::vector<std::string>& addresses, const AskOptions& options, std::vector<HostFacts>& facts);

}  // namespace moka
