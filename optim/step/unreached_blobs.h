// Weights that no gradient reaches. Caffe's solver takes every weight with an lr_mult, so that a layer behind
// `propagate_down: false` still shrinks by weight decay, unless its decay_mult is 0.
#pragma once

#include <vector>

#include "layers/net/net.h"
#include "proto/moka.pb.h"

namespace moka {

// Gives a gradient of 0 to blobs that have none (kNoId) and decay. Requires: a gradient for each trained blob, or none.
inline void DecayUnreached(Graph& graph, const SolverParameter& solver, const std::vector<NetBlob>& trained,
                           std::vector<ValueId>& gradients) {
  const bool may_grow = solver.weight_decay_policy() != "fixed" && solver.max_weight_decay() != 0;
  if (solver.weight_decay() == 0 && !may_grow) return;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] != kNoId || trained[i].decay_mult == 0) continue;
    gradients[i] = GraphBuilder(graph, NodeOrigin{trained[i].layer, {}, "decay"}).Full(trained[i].shape, 0);
  }
}

}  // namespace moka
