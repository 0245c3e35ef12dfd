// The fields that must be the same on all ranks of a training: everything that changes what they compute, or which
// collectives they meet in.
#pragma once

#include <vector>

#include "comm/transport/same_on_all.h"
#include "tools/cli/command_line.h"
#include "tools/train/train_setup.h"

namespace moka {

// Returns the fields of the words and the environment, before any file is read: flags but for those that are a rank's
// own (devices, where it writes, how it speaks), and this build.
std::vector<RankField> FieldsOfStart(const Arguments& arguments);

// Returns the fields of what the words name: the solver, the nets as resolved, layer by layer, what data and weights
// hold, and the checkpoint that the training goes on from.
std::vector<RankField> FieldsOfSetup(const TrainSetup& setup);

}  // namespace moka
