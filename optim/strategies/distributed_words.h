// The words of a solver's `distributed`: names that are looked up in tables when several ranks train.
#pragma once

#include "proto/moka.pb.h"

namespace moka {

// Whatever the number of ranks, so that a solver which one rank has tried holds for several. Errors: kConfig at the
// field, with the nearest name.
void CheckDistributedWords(const SolverParameter& solver);

}  // namespace moka
