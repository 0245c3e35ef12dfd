// The tasks of a stage as a list: as many forward passes ahead as stages follow it, then one backward and one forward
// in turns. The bubble is found by running all stages' lists in virtual time.
#include "optim/pipeline/micro_batches.h"

#include <algorithm>

#include "core/error.h"

namespace moka {

int MicroBatchesUnderWay(int stages, int micro_batches, int stage) { return std::min(stages - stage, micro_batches); }

std::vector<PipelineTask> OneForwardOneBackward(int stages, int micro_batches, int stage) {
  const int ahead = MicroBatchesUnderWay(stages, micro_batches, stage) - 1;
  std::vector<PipelineTask> tasks;
  int forward = 0;
  while (forward < ahead) tasks.push_back({true, forward++});
  for (int backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) tasks.push_back({true, forward++});
    tasks.push_back({false, backward});
  }
  return tasks;
}

double PipelineBubble(int stages, int micro_batches, double backward) {
  const auto count = static_cast<size_t>(micro_batches);
  const auto depth = static_cast<size_t>(stages);
  // When each pass of each stage ends; negative: not yet.
  std::vector<std::vector<double>> forward_end(depth, std::vector<double>(count, -1));
  std::vector<std::vector<double>> backward_end = forward_end;
  std::vector<std::vector<PipelineTask>> tasks;
  for (int s = 0; s < stages; ++s) tasks.push_back(OneForwardOneBackward(stages, micro_batches, s));
  std::vector<size_t> next(depth, 0);
  std::vector<double> now(depth, 0);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (size_t s = 0; s < depth; ++s) {
      if (next[s] == tasks[s].size()) continue;
      const PipelineTask task = tasks[s][next[s]];
      const auto i = static_cast<size_t>(task.micro_batch);
      double ready = 0;
      if (task.is_forward && s > 0) ready = forward_end[s - 1][i];
      if (!task.is_forward) ready = s + 1 < depth ? backward_end[s + 1][i] : forward_end[s][i];
      if (ready < 0) continue;
      now[s] = std::max(now[s], ready) + (task.is_forward ? 1 : backward);
      (task.is_forward ? forward_end : backward_end)[s][i] = now[s];
      ++next[s];
      has_moved = true;
    }
  }
  for (size_t s = 0; s < depth; ++s) Require(next[s] == tasks[s].size(), "the pipeline's schedule comes to its end");
  return 1 - micro_batches * (1 + backward) / *std::ranges::max_element(now);
}

}  // namespace moka
