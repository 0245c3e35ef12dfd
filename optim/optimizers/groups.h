// The terms that SkimCaffe's fields add to a parameter's update (Wen et al., "Learning Structured Sparsity in Deep
// Neural Networks", arXiv 1608.03665): a group lasso on rows, columns and blocks of the parameter seen as a matrix
// (first axis x the rest), a kind of decay of its own, and weights that stay at zero.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "layers/net/layer.h"
#include "proto/moka.pb.h"

namespace moka {

// A group lasso: coefficient * w / |its group|, as part of the gradient.
struct GroupDecay {
  double coefficient = 0;
  ValueId squares = kNoId;  // of the parameter's shape: each element's group's sum of squares
};

struct GroupRules {
  std::vector<GroupDecay> decays;
  bool is_l1 = false;          // the plain decay
  bool keeps_zeros = false;    // a weight that is 0 stays 0
  std::vector<ValueId> alive;  // sums of squares: where one of them is 0 the weight stays as it is
};

// The rules of a parameter, with the nodes that they need. `net` may be null: the solver's alone then.
// Errors: kConfig at the field where blocks do not divide the parameter.
GroupRules GroupRulesOf(const GraphBuilder& b, const SolverParameter& solver, const NetParameter* net,
                        const NetBlob& blob);

// A sentence, with its first place, for each kind of a param's multiplier whose strength the solver leaves at 0, and
// for a connectivity_mode of layers that have no weights of two axes or more. blobs: the net's.
std::vector<std::string> UnreadGroupFields(const SolverParameter& solver, const NetParameter& net,
                                           std::span<const NetBlob> blobs);

}  // namespace moka
