// Where the time of a training's input goes: how long iterations waited for batches, and what its workers did
// meanwhile. A line of the log and of metrics.jsonl (split "input") for each data layer that has workers at the end of
// each epoch, and a line for the whole run.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pipeline/statistics.h"
#include "optim/run/run_folder.h"
#include "optim/step/feed.h"

namespace moka {

class InputReport {
 public:
  // Milliseconds that iterations waited, all layers together, since the last call.
  double TakeWaitMs(const Feed& feed);
  // An epoch is over, in which iterations took `seconds`. `run` may be null. Errors: kIo.
  void Epoch(const Feed& feed, const RunFolder* run, const RunPoint& point, double seconds);
  // Says to the person, too, what the whole run's input was like; its iterations took `seconds`.
  static void End(const Feed& feed, double seconds);

 private:
  double waited_ms_ = 0;
  std::vector<FeedStatistics> at_epoch_;
};

}  // namespace moka
