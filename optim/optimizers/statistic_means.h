// Means of running statistics beside those of the weights (ema_decay).
#pragma once

#include <span>

#include "graph/graph.h"
#include "layers/net/net.h"
#include "optim/optimizers/update_slots.h"

namespace moka {

// Running statistics come to have an exponential mean as weights have it, in the slot "@ema": what mean weights give a
// normalisation is not what the newest give it, so neither are its statistics. As PyTorch's AveragedModel with
// use_buffers. `statistics` have their states in the graph, where they are looked up by name, or come to have them; the
// mean is of what the graph assigns to them. Means keep their values where the scalar `guard` (or kNoId) is not finite.
// Adds to the slots and inputs of `updates`.
void AddMeansOfStatistics(Graph& graph, std::span<const NetBlob> statistics, ValueId guard, Updates& updates);

}  // namespace moka
