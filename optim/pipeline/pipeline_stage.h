// One stage of a net that is trained as a pipeline: runs the stage's forward and backward programs over the
// micro-batches of an iteration, one forward, one backward, and passes activations and gradients on. What is kept of a
// micro-batch lies in one of as many slots as there are micro-batches under way. One thread at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/transport/point_to_point.h"
#include "graph/partition.h"
#include "graph/program.h"
#include "optim/pipeline/micro_batches.h"

namespace moka {

class PipelineStage {
 public:
  // The programs were made of the graphs; all must outlive it. Requires: the rank is the stage.
  PipelineStage(Communicator& world, const StageGraphs& graphs, Program& forward, Program& backward, int micro_batches);

  // An iteration: `load` fills the forward program's data before micro-batch i, `look` sees its outputs. Allocates
  // nothing but queue entries of sends. Errors: kPeer when a rank is lost.
  void Run(const std::function<void(int)>& load, const std::function<void(int)>& look);

 private:
  // A value of each slot: where it comes from and goes to.
  struct Kept {
    int from = 0;
    bool is_received = false;
    std::vector<int> readers;
    Tensor made;        // by a program of this stage, or its data; no data where it is received
    Tensor to_forward;  // no data: not read
    Tensor to_backward;
    std::vector<std::vector<std::byte>> slots;
  };

  static std::vector<Kept> Bind(const std::vector<KeptValue>& values, int stage, int slots, const Program& maker,
                                const Program& forward, const Program& backward);
  void Forward(int slot);
  void Backward(int slot);

  PointToPoint channel_;
  Program& forward_;
  Program& backward_;
  std::vector<PipelineTask> tasks_;
  int slots_;
  std::vector<Kept> values_;
  std::vector<Kept> gradients_;
};

}  // namespace moka
