// When the scheduler of a cluster ends the job that this process is in.
#pragma once

#include <optional>

namespace moka {

// The seconds that a training may take for its job not to be ended before it has written a checkpoint, by Slurm's
// SLURM_JOB_END_TIME: all that is left but 60 s, or but a tenth where that is less. It says so; a time that is none, or
// is past, is warned of and limits nothing, as does none at all. `asked_s`: what the user gives the training; where
// that is less, or the scheduler limits nothing, it is what holds and nothing is said.
std::optional<double> SchedulerTimeLimit(std::optional<double> asked_s);

}  // namespace moka
