// Turns the gathers around in time, plans them as sums, and turns the plan back: a gather that is needed at t is a
// gradient that is ready at T - t.
#include "comm/exchange/gather_plan.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace moka {

FusionPlan PlanWithGathers(std::string_view planner, const FusionInput& input, std::span<const double> needed_s,
                           const CostTable& costs, int64_t bucket_bytes) {
  Require(needed_s.size() <= input.gradients.size(), "PlanWithGathers: times of the last gradients");
  if (needed_s.empty()) return PlanFusion(planner, input, costs, bucket_bytes);
  const size_t summed = input.gradients.size() - needed_s.size();
  FusionInput sums = input;
  sums.gradients.resize(summed);
  sums.backward_s = summed == 0 ? 0 : sums.gradients.back().ready_s;
  FusionPlan plan = PlanFusion(planner, sums, costs, bucket_bytes);

  FusionInput reversed;
  reversed.backward_s = needed_s.back() - needed_s.front();
  reversed.ranks = input.ranks;
  for (size_t i = needed_s.size(); i-- > 0;) {
    ReadyGradient gradient = input.gradients[summed + i];
    gradient.ready_s = needed_s.back() - needed_s[i];
    reversed.gradients.push_back(std::move(gradient));
  }
  FusionPlan gathers = PlanFusion(planner, reversed, costs, bucket_bytes);
  std::ranges::reverse(gathers.buckets);
  double free = plan.buckets.empty() ? 0 : plan.buckets.back().end_s;
  for (Bucket& bucket : gathers.buckets) {
    const double seconds = bucket.end_s - bucket.begin_s;
    bucket.first = static_cast<int64_t>(input.gradients.size()) - bucket.first - bucket.count;
    bucket.begin_s = std::max(free, input.gradients[static_cast<size_t>(bucket.first + bucket.count) - 1].ready_s);
    bucket.end_s = free = bucket.begin_s + seconds;
    plan.buckets.push_back(std::move(bucket));
  }
  plan.gradients_hash = HashOf(input.gradients);
  plan.exposed_s += gathers.exposed_s;
  plan.iteration_s += gathers.exposed_s;
  return plan;
}

}  // namespace moka
