// The order in which a stage of a pipeline works on micro-batches, as data: one forward, one backward (1F1B; Narayanan
// et al., "Memory-efficient pipeline-parallel DNN training", 2021: PipeDream-Flush). A stage begins with as many
// forward passes as there are stages behind it, then takes turns, so at most `stages - stage` micro-batches are under
// way, and every iteration ends with all of them done.
#pragma once

#include <vector>

namespace moka {

struct PipelineTask {
  bool is_forward = true;
  int micro_batch = 0;
  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

std::vector<PipelineTask> OneForwardOneBackward(int stages, int micro_batches, int stage);

// Micro-batches of which a stage keeps values at once, at most.
int MicroBatchesUnderWay(int stages, int micro_batches, int stage);

// The part of an iteration in which a stage has nothing to do, on average, where a forward pass takes one unit of time
// and a backward pass `backward` of them, and sending none. By theory (p-1)/(m+p-1).
double PipelineBubble(int stages, int micro_batches, double backward);

}  // namespace moka
