// The data that a run reads and what they hold, kept in its run.json: a run that is resumed goes on over the data that
// it was started with.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "optim/run/run_identity.h"
#include "proto/nets/solver_file.h"

namespace moka {

struct DataOfRun {
  std::map<std::string, std::string> contents;  // by its DataName, what it holds (tools/train/content_identity.h)
  std::set<std::string> trained;                // the names of what the training reads; tests read the rest
};

// How a file or a data set is called: as it is written in the net, and a list whose files begin at a folder also by
// that, "list.txt in pictures/".
std::string DataName(const std::string& text, const std::string& root);

// Each file and data set that a layer without bottoms names in the nets of the training or its tests.
DataOfRun ReadRunData(const SolverNets& nets);

// Holds what the nets of the run that is resumed read to what its `identity` says. A warning where tests read something
// else, and for a run of a version that kept no such lines. Errors: kUsage where the training does.
void CheckRunData(const DataOfRun& data, const RunIdentity& identity, const std::filesystem::path& run);

}  // namespace moka
