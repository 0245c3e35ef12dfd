// Loss scaling (Micikevicius et al., "Mixed precision training", ICLR 2018): the loss is multiplied by a scale before
// it is differentiated, so that small gradients do not vanish in a half type, and gradients are divided by it in the
// update. A gradient that is not finite leaves every state as it was. The scale is fixed, or found while training:
//
//   all gradients finite   -> good steps + 1; after `window` of them the scale doubles (at most 2^24), good steps 0
//   one is not finite      -> the scale halves (at least 1), good steps 0
//   the loss is not finite -> these two keep their values as well
//
// All of it is part of the graph: nothing is decided by the host. The two scalars are states of the store and part of
// checkpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "graph/graph.h"
#include "graph/parameter_store.h"

namespace moka {

struct LossScaling {
  double scale = 1;  // fixed, or the first one; 1 and not dynamic: the loss is not scaled
  bool is_dynamic = false;
  int64_t window = 2000;
};

inline constexpr double kFirstLossScale = 65536;
inline constexpr std::string_view kLossScaleState = "@loss_scale";  // also the output with the scale of the next step
inline constexpr std::string_view kGoodStepsState = "@good_steps";
// The output with the scale at which a gradient was not finite in this step, 0 if all were.
inline constexpr std::string_view kSkippedOutput = "@skipped";

// The scaling of one step's graph.
class LossScale {
 public:
  // Adds what the scaling needs: nothing, a constant, or the two states.
  LossScale(Graph& graph, const LossScaling& scaling);

  // The gradient of the loss to start from, and the scalar every gradient is to be multiplied by; kNoId: 1.
  ValueId seed() const { return seed_; }
  ValueId unscale() const { return unscale_; }
  // A scalar that is the loss, and not finite if a gradient of a scaled loss is not.
  ValueId Guard(ValueId loss, std::span<const ValueId> gradients);
  // Assigns the states of a scaled loss and adds its outputs. Requires: Guard was called.
  void Finish();

 private:
  Graph& graph_;
  LossScaling scaling_;
  ValueId seed_ = kNoId;
  ValueId unscale_ = kNoId;
  ValueId good_ = kNoId;
  ValueId loss_ = kNoId;
  ValueId overflows_ = kNoId;  // how many elements of gradients are not finite
};

// The states of dynamic scaling as they are at first, if the store lacks them.
void AddLossScaleStates(const LossScaling& scaling, ParameterStore& store);

}  // namespace moka
