// What a solver's fields may be and which of them take part: numbers outside their range are refused at their place,
// and what nothing reads is said before the first iteration.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// The numbers a field may hold, ends included; NaN is none of them.
struct SolverRange {
  std::string field;
  double low;
  double high;
};

// A row for every field of a number, by name; those of TrainTurn have the solver's names.
const std::vector<SolverRange>& SolverRanges();

// Errors: kConfig at the first number that is out of its range, in the solver or in what lies in it.
void CheckSolverNumbers(const SolverParameter& solver);

// What else decides whether a field is read; by itself all that can be.
struct SolverContext {
  bool finds_loss_scale = true;  // while it trains, which half precision alone does
  bool has_classes = true;       // a test net evaluates them one by one
};

// One sentence, with its place, for each field that is set to other than its default and that this training does not
// read: those documented as ignored, and those of another policy, type or mode.
std::vector<std::string> UnreadSolverFields(const SolverParameter& solver, const SolverContext& context = {});

}  // namespace moka
