// A solver may want another trained before it (SolverParameter.first_solver), such as the linear phase of a memory
// network: that is a run of its own, whose last weights the other starts from.
#pragma once

#include <optional>

#include "tools/cli/command_line.h"

namespace moka {

// The words of the first training: the overrides of nets, the seed and the flags of the given ones, and a name of its
// own. None where the solver wants none, or where the training starts from weights or a checkpoint, or is only looked
// at. Errors: those of reading the solver; kNoInput for a first solver that is not there; kConfig for one that wants a
// first one itself.
std::optional<Arguments> FirstTrainingOf(const Arguments& arguments);

}  // namespace moka
