// Checks what a solver's fields may be and which of them take part: numbers outside their range are refused at their
// place, and what nothing reads is said before the first iteration.
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

// Whether a test net is tested at all: test_iter 0 builds it only.
bool TestsNet(const SolverParameter& solver, int net);

// The other facts that decide whether a field is read; by default all fields that can be read are.
struct SolverContext {
  bool finds_loss_scale = true;   // while it trains, which half precision alone does
  bool has_classes = true;        // a test net evaluates them one by one
  bool has_breadth_decay = true;  // a parameter of the train net asks for it, so for the next two
  bool has_kernel_shape_decay = true;
  bool has_block_groups = true;
  bool is_stepped = false;  // by a program, net by net (optim/layerwise)
};

// Enters into the context which of the solver's group decays the net's parameters ask for.
void TellGroups(const NetParameter& net, SolverContext& context);

// One sentence, with its place, for each field that is set to other than its default and that this training does not
// read: those documented as ignored, and those of another policy, type or mode.
std::vector<std::string> UnreadSolverFields(const SolverParameter& solver, const SolverContext& context = {});

}  // namespace moka
