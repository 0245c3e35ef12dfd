// The mean over all ranks of values that each has changed by itself, in place: what local SGD agrees by.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/schedule/runner.h"
#include "comm/transport/communicator.h"
#include "core/device/tensor.h"

namespace moka {

class StateMean {
 public:
  // states: float32 in the host's memory, the same on all ranks and as long as this lives; `sums` floats more are
  // added up, not averaged. All travel as float32: what a weight gains in an iteration is less than a half type keeps
  // of the weight. algorithm: as ChoiceOfAllReduce reads it, or "auto". The communicator must outlive it.
  // Errors: kConfig for an algorithm that is none or does not run here.
  StateMean(Communicator& communicator, const std::string& algorithm, const std::vector<Tensor>& states, int sums);

  // All ranks. Allocates nothing once it has run. Errors: kPeer as Runner::Run.
  void Run();
  std::span<float> sums() { return sums_; }
  // "direct, 1.2 MiB".
  std::string Describe() const;

 private:
  Communicator& communicator_;
  std::string algorithm_;
  std::vector<float> sums_;
  Message states_;
  Message all_;
  Runner runner_;
};

}  // namespace moka
