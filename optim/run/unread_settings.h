// Warnings, before the first iteration, of what a solver and its nets say and this training does not read.
#pragma once

#include "optim/precision.h"
#include "optim/step/train_turns.h"
#include "proto/moka.pb.h"
#include "proto/nets/solver_file.h"

namespace moka {

// Speaks of fields of the solver, and of types in the train net.
void WarnOfUnread(const SolverParameter& solver, const SolverNets& nets, Compute compute);

// Speaks of what shows once the nets are built: fields of parameters, and `recompute`, whether a flag or the solver
// says it, where no step keeps less for it.
void WarnOfUnread(const SolverParameter& solver, const SolverNets& nets, const TrainTurns& turns, bool recompute);

}  // namespace moka
