// Training with parameter servers: every rank owns some of the weights with their slots, applies the solver's rule to
// the gradients that workers push, and sends back what they became (comm/server/parameter_service.h). A blob has one
// owner, so LARS and LAMB have the norms of whole blobs. Of a worker's gradient g of weights v that are w by now, the
// server makes g + lambda g*g*(w - v) where solver.distributed.delay_compensation is lambda (Zheng et al.,
// "Asynchronous stochastic gradient descent with delay compensation", ICML 2017).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/server/parameter_service.h"
#include "graph/parameter_store.h"
#include "graph/program.h"
#include "layers/net/layer.h"
#include "optim/optimizers/update_slots.h"
#include "optim/strategies/strategy.h"

namespace moka {

class ServedUpdates : public Strategy, public ServedValues {
 public:
  struct Setting {
    const SolverParameter* solver = nullptr;
    const NetParameter* net = nullptr;  // what the layers ask of their updates
    std::vector<NetBlob> blobs = {};    // trained and reached by the loss; gradients are in their "@sum" states
    std::vector<std::string> statistics = {};
    CompileOptions compile = {};
  };
  // The slots of all blobs, which checkpoints have.
  static std::vector<SlotState> Slots(const Setting& setting);

  // The store has the blobs, statistics and Slots(); world and store must outlive it.
  ServedUpdates(Communicator& world, ParameterStore& store, Setting setting);
  ~ServedUpdates() override;

  void Join() override;
  void Begin(int64_t iteration) override;
  double Finish(int64_t iteration, double loss, bool must_agree, Wishes& wishes) override;
  void Cancel(const std::string& why) noexcept override;
  std::string Describe() const override;

 private:
  // Whether a worker's gradient is an update by itself. All workers' together are then one step, as long as that of the
  // mean: each is of a rate divided by their number, so that weight decay is not applied as often as there are workers.
  bool UpdatesByWorker() const { return rule_ != ParameterService::Rule::kTogether; }
  // These serve the blobs that this rank owns; the service's thread only.
  void Apply(int64_t clock, double loss, std::span<float> gradients, std::span<const float> sent) override;
  void Read(std::span<float> values) const override;

  void BuildServer();
  // Owned weights and slots go to every rank, statistics become means.
  void ShareStates();

  Communicator& world_;
  ParameterStore& store_;
  Setting setting_;
  ParameterService::Rule rule_;
  std::vector<std::vector<NetBlob>> owned_;  // by rank
  std::vector<SlotState> slots_;
  // State of the server.
  ParameterStore served_;
  std::unique_ptr<Program> update_;  // null for a rank that owns nothing
  std::vector<std::string> inputs_;
  mutable std::vector<float> current_;  // weights, where delays are compensated
  // State of the worker, all servers' values one behind the other.
  std::vector<float> gradients_;
  std::vector<float> weights_;
  std::vector<float> zeros_;
  std::unique_ptr<ParameterService> service_;  // last: its thread uses the others
};

}  // namespace moka
