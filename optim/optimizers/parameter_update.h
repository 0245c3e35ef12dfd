// The vocabulary that optimisers are written in: what the update of one parameter reads, and what it makes of it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/term.h"
#include "layers/net/layer.h"
#include "optim/optimizers/groups.h"
#include "optim/optimizers/update_slots.h"

namespace moka {

// The update of one parameter being written, in terms of its weight, its gradient, its slots and scalars.
class ParameterUpdate {
 public:
  // State shared by the parameters of one AddUpdates.
  struct Shared {
    const SolverParameter& solver;
    GraphBuilder builder;
    ValueId guard = kNoId;
    ValueId clip = kNoId;     // scalar every gradient is multiplied by; kNoId: none
    ValueId unscale = kNoId;  // 1 / the loss scale, which gradients are multiplied by before anything; kNoId: 1
    double scale = 1;         // constant every gradient is multiplied by: gradient_scale / iter_size
    const NetParameter* net = nullptr;
    std::span<const std::string> corrected = {};  // UpdateSpec::corrected
    SplitNorms split = {};
    Updates* updates = nullptr;
  };
  ParameterUpdate(Shared& shared, const NetBlob& blob, ValueId gradient);

  const SolverParameter& solver() const { return shared_.solver; }
  const GraphBuilder& builder() const { return shared_.builder; }
  // Whether the solver spares this parameter decay and layer-wise rates (decay_skip_bias_and_norm).
  bool is_spared() const;
  // max_weight_decay where a policy changes the decay and it is given, else weight_decay, times decay_mult; 0 for a
  // spared parameter.
  double decay() const;
  // The momentum of the iteration; whether it can be other than 0.
  Term Momentum();
  bool has_momentum() const;
  // Whether the gradient has the momentum in it while Scalar("gradient_momentum") is 0.
  bool is_corrected() const;

  Term Weight() { return Use(blob_.state); }
  // Clipped and normalised, without decay.
  Term Gradient();
  // The same plus the L2 or L1 decay term and those of groups; or any gradient plus those.
  Term DecayedGradient() { return Decayed(Gradient()); }
  Term Decayed(Term gradient);
  // The rate input times lr_mult; the rate input alone.
  Term Rate();
  Term GlobalRate() { return Scalar("lr"); }
  // The old value of a slot, declared at first use.
  Term Slot(std::string_view slot);
  // A scalar input of the update (UpdateInput).
  Term Scalar(std::string_view input);
  // Any value of the graph as a term.
  Term Use(ValueId value);

  // Scalars: L2 norms of the weight, and of the gradient as Gradient() gives it.
  ValueId WeightNorm() { return Norm(blob_.state); }
  ValueId GradientNorm();
  // L2 norm of any value.
  ValueId Norm(ValueId value);

  // These set the new values of a slot and of the weight; Finish adds the nodes and assignments.
  void SetSlot(std::string_view slot, const Term& value);
  void SetWeight(const Term& value) { weight_ = value; }
  void Finish();
  // Adds the node for the slots set so far and an extra term, whose value is returned. Terms of before hold no longer.
  ValueId FinishSlots(const Term& extra);

 private:
  // The term of this iteration's decay; a constant where the policy is "fixed".
  Term Decay();
  ValueId SlotState(std::string_view slot);
  // sqrt(sum of a term of a value and, if given, a scalar), over all ranks' parts of it.
  ValueId RootOfSum(ValueId value, const Term& term, ValueId scalar = kNoId);
  Term Guarded(const Term& value, ValueId old);
  // As a state keeps it: rounded to float16 if the solver's own data are of that type (solver_data_type).
  ValueId Kept(ValueId value);
  std::vector<ValueId> AddNode(const std::vector<Term>& terms);

  Shared& shared_;
  const NetBlob& blob_;
  ValueId gradient_;
  GroupRules rules_;
  std::vector<ValueId> inputs_;
  std::vector<std::pair<std::string, ValueId>> slots_;  // declared: name and state
  std::vector<std::pair<ValueId, Term>> slot_updates_;
  Term weight_ = 0;
  int norms_ = 0;
};

}  // namespace moka
