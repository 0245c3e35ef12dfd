// Ranks of a training that are threads of this process: how many there are, and what each computes on.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"
#include "tools/cli/command_line.h"

namespace moka {

struct ProcessRanks {
  int count = 1;
  // A device for each rank as the value of this flag; empty: a rank chooses as a process does (DeviceOf).
  std::string flag{};
  std::vector<std::string> devices{};
};

// --ranks=N, as many devices as --device=gpu:0,gpu:1 or Caffe's --gpu=0,1 and --gpu=all list, or as many as the
// solver's device_id names where there are GPUs. Errors: kUsage for other numbers, when --ranks and a list contradict
// each other, and for a list of CPUs and GPUs; kUnavailable for a GPU that is not there.
ProcessRanks RanksOfProcess(const Arguments& arguments, const SolverParameter& solver);

// Whether the arguments list several devices.
bool ListsDevices(const Arguments& arguments);

// The arguments of one of them, with its own device in place of the list.
Arguments ArgumentsOfRank(const Arguments& arguments, const ProcessRanks& ranks, int rank);

// For a process that a launcher has started as one of several ranks. Errors: kUsage if the arguments ask for ranks of
// its own.
void RefuseRanksOfProcess(const Arguments& arguments);

}  // namespace moka
