// How a training's ranks sum their gradients: measures what all-reduces cost between these ranks, and from that and the
// backward pass plans the buckets. Rank 0 plans; all compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/algorithms/all_reduce_choice.h"
#include "comm/exchange/cost_curve.h"
#include "comm/exchange/fusion_plan.h"
#include "comm/exchange/gradient_exchange.h"
#include "comm/transport/communicator.h"

namespace moka {

struct ExchangeOptions {
  std::string algorithm = "auto";  // or a name as ChoiceOfAllReduce reads it
  std::string fusion = "optimal";
  int64_t bucket_bytes = int64_t{25} << 20U;
  Wire wire = Wire::kFloat32;
  // One algorithm for all messages, whose sums have one order: results do not depend on the plan.
  bool has_fixed_order = true;
};

class ExchangePlanner {
 public:
  // `device`: of gradients in a GPU's memory, null for a CPU's; must outlive the planner, too. NCCL has one algorithm,
  // "nccl", and takes the sums of an element in an order that depends on its bucket: where the order is to be fixed,
  // buckets follow from bytes alone.
  // Errors: kConfig for an unknown algorithm or planner, for an algorithm that these ranks cannot run and, where the
  // order is to be fixed, for one whose sums have none.
  ExchangePlanner(Communicator& communicator, ExchangeOptions options, DeviceExchange* device = nullptr);

  // All ranks, before the first iteration: measures messages of up to `bytes` with each algorithm that comes into
  // question. Errors: kPeer.
  void Measure(int64_t bytes);
  // All ranks, between iterations: a plan for the gradients as they were ready since the last one. Errors: kPeer.
  void Plan(GradientExchange& exchange);

  const FusionPlan& plan() const { return plan_; }
  const CostTable& costs() const { return costs_; }
  // For --explain=comm: the plan, and beside it what the exchange has measured.
  std::string Explain(const GradientExchange& exchange) const;
  // "4 ranks on 1 host · gradients 94.1 MiB in 3 buckets · direct · float32": for the first lines of a log.
  std::string Describe() const;

 private:
  void ChooseCandidates();
  bool UsesNccl() const { return device_ != nullptr && !device_->all_reduce().runs_schedules(); }
  // Returns the least, over several runs, of the mean time of the ranks.
  double LeastSeconds(const std::function<void()>& run) const;
  void MeasureNccl(int64_t bytes);
  FusionInput InputOf(const GradientExchange& exchange) const;
  std::vector<double> NeedsOf(const GradientExchange& exchange) const;
  const AllReduceChoice& CandidateOf(const std::string& name) const;

  Communicator& communicator_;
  ExchangeOptions options_;
  DeviceExchange* device_;
  std::vector<AllReduceChoice> candidates_;
  CostTable costs_;
  FusionPlan plan_;
  FusionInput input_;
};

}  // namespace moka
