// Refusals that name the solver's field, and what it may be.
#include "optim/optimizers/solver_checks.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "proto/text/places.h"

namespace moka {

void RequireOneOf(const SolverParameter& solver, std::string_view field, const std::string& value,
                  const std::vector<std::string>& known) {
  if (std::ranges::find(known, value) != known.end()) return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, field), StrCat("unknown ", field, " \"", value, "\""),
              StrCat("known are ", Join(known, ", ")));
}

void RequireNoMomentum(const SolverParameter& solver) {
  if (solver.momentum() == 0) return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "momentum"),
              StrCat(solver.type(), " has no momentum, and momentum is ", solver.momentum()), "remove the line");
}

void RequireL2(const SolverParameter& solver) {
  if (solver.regularization_type() == "L2") return;
  throw Error(ErrorKind::kConfig, PlaceOf(solver, "regularization_type"),
              StrCat(solver.type(), " knows only regularization_type \"L2\", and it is \"",
                     solver.regularization_type(), "\""));
}

}  // namespace moka
