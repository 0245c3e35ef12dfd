// Checks of a solver's fields that rows of optimisers and of policies share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// Errors: kConfig at the field (for all here).
void RequireOneOf(const SolverParameter& solver, std::string_view field, const std::string& value,
                  const std::vector<std::string>& known);
void RequireNoMomentum(const SolverParameter& solver);
void RequireL2(const SolverParameter& solver);

}  // namespace moka
