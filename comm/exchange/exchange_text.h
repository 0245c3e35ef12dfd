// The texts that tell of an exchange of gradients (--explain=comm, the end of a training's log, moka simulate
// --explain): the buckets with their layers and bytes, what was predicted and what measured, and what all-reduces cost
// between these ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/exchange/cost_curve.h"
#include "comm/exchange/fusion_plan.h"
#include "comm/exchange/gradient_exchange.h"

namespace moka {

struct ExchangeRecord {
  const FusionPlan& plan;
  const FusionInput& input;  // that the plan was made for
  const CostTable& costs;
  std::vector<BucketTimes> times{};  // measured, a bucket each; empty: nothing was
  int64_t iterations = 0;            // that they are means of
  double exposed_s = 0;              // measured: the program waited in an iteration
};

// Tables of milliseconds: times of buckets are from the first gradient of an iteration on (a simulated backward pass
// begins a little before it). Requires: the plan is for these gradients.
std::string ExplainExchange(const ExchangeRecord& record);
// A line a size: what each algorithm took, and its start-up and time a byte by a least-squares fit.
std::string ExplainCosts(const CostTable& costs);

}  // namespace moka
