// Local SGD (Stich, "Local SGD converges fast and communicates little", ICLR 2019): each rank trains alone for H
// iterations, then weights, slots and statistics become their mean over the ranks. With H = 1 for the first iterations
// it is post-local SGD (Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020); for rules that are
// linear in the gradient, H = 1 is synchronous training.
#pragma once

#include <vector>

#include "comm/exchange/state_mean.h"
#include "graph/parameter_store.h"
#include "optim/strategies/strategy.h"

namespace moka {

class LocalSgd : public Strategy {
 public:
  // names: what becomes a mean, in the store, compiled. Errors: those of StateMean.
  LocalSgd(Communicator& world, const SolverParameter& solver, ParameterStore& store, std::vector<std::string> names);

  void Join() override;
  void Begin(int64_t) override {}
  double Finish(int64_t iteration, double loss, bool must_agree, Wishes& wishes) override;
  void Cancel(const std::string& why) noexcept override { world_.Fail(why); }
  std::string Describe() const override;

 private:
  Communicator& world_;
  int64_t steps_;
  int64_t from_;
  ParameterStore& store_;
  std::vector<std::string> names_;
  std::vector<std::string> mirrored_;  // values with copies in other types
  StateMean mean_;
};

}  // namespace moka
