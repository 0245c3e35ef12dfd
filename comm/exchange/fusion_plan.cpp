// The planners, each a function from gradients and costs to the ends of buckets. Bytes are prefix sums, so that a
// bucket's cost is looked up in constant time.
#include "comm/exchange/fusion_plan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

// Ends of the buckets: one past the last gradient of each, ascending, the last is the number of gradients.
using Ends = std::vector<int64_t>;

// The questions that planners ask of gradients and costs: a bucket of gradients [i, j).
class Problem {
 public:
  Problem(const FusionInput& input, const CostTable& costs, int64_t bucket_bytes)
      : input_(input), costs_(costs), bucket_bytes_(bucket_bytes) {
    double ready = 0;
    for (const ReadyGradient& gradient : input.gradients) {
      Require(gradient.bytes >= 0 && gradient.ready_s >= ready, "PlanFusion: gradients as they become ready");
      ready = gradient.ready_s;
      sums_.push_back(sums_.back() + gradient.bytes);
      if (gradient.owner >= 0) owned_.resize(std::max(owned_.size(), static_cast<size_t>(gradient.owner) + 1), {0});
    }
    for (size_t owner = 0; owner < owned_.size(); ++owner) {
      for (const ReadyGradient& gradient : input.gradients) {
        const bool is_its = gradient.owner == static_cast<int>(owner);
        owned_[owner].push_back(owned_[owner].back() + (is_its ? gradient.bytes : 0));
      }
    }
    Require(input.backward_s >= ready && input.other_s >= 0, "PlanFusion: the whole backward pass");
  }

  int64_t count() const { return static_cast<int64_t>(input_.gradients.size()); }
  int64_t bucket_bytes() const { return bucket_bytes_; }
  double Ready(int64_t j) const { return input_.gradients[static_cast<size_t>(j) - 1].ready_s; }
  int64_t Bytes(int64_t i, int64_t j) const { return sums_[static_cast<size_t>(j)] - sums_[static_cast<size_t>(i)]; }
  MessageCost Cost(int64_t i, int64_t j) const { return costs_.Cheapest(ReducedBytes(i, j)); }
  double StartUp() const { return costs_.Minimum().Fit().alpha_s; }

  std::vector<Bucket> Buckets(const Ends& ends) const {
    std::vector<Bucket> buckets;
    int64_t i = 0;
    double free = 0;
    for (const int64_t j : ends) {
      const MessageCost cost = Cost(i, j);
      const double begin = std::max(free, Ready(j));
      free = begin + cost.seconds;
      buckets.push_back({i, j - i, Bytes(i, j), std::string(cost.algorithm), begin, free});
      i = j;
    }
    return buckets;
  }

 private:
  // Returns the bytes of an all-reduce that takes as long as the bucket's sums to owners.
  int64_t ReducedBytes(int64_t i, int64_t j) const {
    int64_t bytes = Bytes(i, j);
    int64_t most = 0;
    for (const std::vector<int64_t>& sums : owned_) {
      const int64_t of_owner = sums[static_cast<size_t>(j)] - sums[static_cast<size_t>(i)];
      most = std::max(most, of_owner);
      bytes -= of_owner;
    }
    return bytes + most * input_.ranks / 2;
  }

  const FusionInput& input_;
  const CostTable& costs_;
  int64_t bucket_bytes_;
  std::vector<int64_t> sums_ = {0};
  std::vector<std::vector<int64_t>> owned_;  // the same of each owner's; none if nothing has an owner
};

Ends None(const Problem& problem) {
  Ends ends;
  for (int64_t j = 1; j <= problem.count(); ++j) ends.push_back(j);
  return ends;
}

Ends Single(const Problem& problem) { return {problem.count()}; }

Ends FixedPlan(const Problem& problem) {
  Ends ends;
  int64_t begin = 0;
  for (int64_t j = 1; j <= problem.count(); ++j) {
    if (j < problem.count() && problem.Bytes(begin, j) < problem.bucket_bytes()) continue;
    ends.push_back(j);
    begin = j;
  }
  return ends;
}

Ends Two(const Problem& problem) {
  Ends best = Single(problem);
  double least = std::numeric_limits<double>::infinity();
  for (int64_t cut = 1; cut < problem.count(); ++cut) {
    const double end = problem.Buckets({cut, problem.count()}).back().end_s;
    if (end >= least) continue;
    least = end;
    best = {cut, problem.count()};
  }
  return best;
}

// One pass from the gradient that is ready first: a bucket waits for the next gradient if it could not start before
// that is ready anyway, or if waiting costs less than the start-up it saves; but only if its all-reduce would still go
// on when the next is ready.
Ends Greedy(const Problem& problem) {
  const auto n = static_cast<size_t>(problem.count());
  std::vector<double> seconds(n);  // of the bucket that ends here; 0 once it has joined the next
  std::vector<double> starts(n);
  std::vector<bool> is_end(n, true);
  for (size_t k = 0; k < n; ++k)
    seconds[k] = problem.Cost(static_cast<int64_t>(k), static_cast<int64_t>(k) + 1).seconds;
  const auto start_all = [&] {
    double free = 0;
    for (size_t k = 0; k < n; ++k) {
      starts[k] = std::max(free, problem.Ready(static_cast<int64_t>(k) + 1));
      free = starts[k] + seconds[k];
    }
  };
  start_all();
  const double start_up = problem.StartUp();
  int64_t begin = 0;
  for (size_t k = 0; k + 1 < n; ++k) {
    const double ready = problem.Ready(static_cast<int64_t>(k) + 2);
    const bool goes_on = ready < starts[k] + seconds[k];
    if (!goes_on || (starts[k] <= ready && ready - starts[k] >= start_up)) {
      begin = static_cast<int64_t>(k) + 1;
      continue;
    }
    is_end[k] = false;
    seconds[k] = 0;
    seconds[k + 1] = problem.Cost(begin, static_cast<int64_t>(k) + 2).seconds;
    start_all();
  }
  Ends ends;
  for (size_t k = 0; k < n; ++k) {
    if (is_end[k]) ends.push_back(static_cast<int64_t>(k) + 1);
  }
  return ends;
}

// F(j), the least end of the first j gradients' communication, is the least over i < j of max(F(i), ready(j)) +
// T(bytes of [i, j)): to end the first i earlier never hurts the rest, so nothing else of them has to be known. Of all
// plans that reach F(n) the one with the fewest buckets is taken, from the same recurrence with the number of buckets
// fixed.
Ends Optimal(const Problem& problem) {
  const auto n = static_cast<size_t>(problem.count());
  std::vector<double> cost((n + 1) * (n + 1));  // of [i, j) at i * (n + 1) + j
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j <= n; ++j)
      cost[i * (n + 1) + j] = problem.Cost(static_cast<int64_t>(i), static_cast<int64_t>(j)).seconds;
  }
  const auto end_after = [&](const std::vector<double>& ends, size_t i, size_t j) {
    return std::max(ends[i], problem.Ready(static_cast<int64_t>(j))) + cost[i * (n + 1) + j];
  };
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> least(n + 1, 0);
  for (size_t j = 1; j <= n; ++j) {
    least[j] = kNever;
    for (size_t i = 0; i < j; ++i) least[j] = std::min(least[j], end_after(least, i, j));
  }
  // Sums of the same numbers in another order differ in their last bits.
  const double reached = least[n] * (1 + 1e-12);
  std::vector<double> ends(n + 1, kNever);  // with exactly as many buckets as `begins` has rows
  ends[0] = 0;
  std::vector<std::vector<size_t>> begins;  // of the last of k buckets that hold the first j gradients: [k - 1][j]
  while (ends[n] > reached) {
    std::vector<double> next(n + 1, kNever);
    std::vector<size_t> begin(n + 1, 0);
    for (size_t j = 1; j <= n; ++j) {
      for (size_t i = 0; i < j; ++i) {
        const double end = end_after(ends, i, j);
        if (end < next[j]) {
          next[j] = end;
          begin[j] = i;
        }
      }
    }
    ends = std::move(next);
    begins.push_back(std::move(begin));
  }
  Ends cuts(begins.size());
  size_t j = n;
  for (size_t k = begins.size(); k-- > 0; j = begins[k][j]) cuts[k] = static_cast<int64_t>(j);
  return cuts;
}

struct PlannerRow {
  FusionPlanner planner;
  Ends (*plan)(const Problem&);
};
constexpr std::array<PlannerRow, 6> kPlanners = {{
    {{"optimal", "least time of all bucket boundaries (exact dynamic programme)"}, Optimal},
    {{"greedy", "MG-WFBP: one pass that merges where a start-up costs more than waiting"}, Greedy},
    {{"two", "the best cut in two"}, Two},
    {{"fixed", "a bucket ends when it has bucket_bytes"}, FixedPlan},
    {{"single", "one bucket after the backward pass"}, Single},
    {{"none", "each gradient by itself"}, None},
}};

const PlannerRow& FindPlanner(std::string_view name) {
  std::vector<std::string> known;
  for (const PlannerRow& row : kPlanners) {
    if (row.planner.name == name) return row;
    known.emplace_back(row.planner.name);
  }
  const std::string near = DidYouMean(name, known);
  throw Error(ErrorKind::kConfig, {}, StrCat("unknown fusion planner \"", Printable(name), "\""),
              near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
}

}  // namespace

std::span<const FusionPlanner> FusionPlanners() {
  static const std::vector<FusionPlanner> planners = [] {
    std::vector<FusionPlanner> all;
    for (const PlannerRow& row : kPlanners) all.push_back(row.planner);
    return all;
  }();
  return planners;
}

FusionPlan PlanFusion(std::string_view planner, const FusionInput& input, const CostTable& costs,
                      int64_t bucket_bytes) {
  const PlannerRow& row = FindPlanner(planner);
  if (bucket_bytes < 1) {
    throw Error(ErrorKind::kConfig, {}, StrCat("bucket_bytes is ", bucket_bytes, ", must be at least 1"), "");
  }
  Require(!costs.empty(), "PlanFusion: a table of costs");
  const Problem problem(input, costs, bucket_bytes);
  FusionPlan plan;
  plan.planner = planner;
  plan.gradients_hash = HashOf(input.gradients);
  if (problem.count() > 0) {
    plan.buckets = problem.Buckets(row.plan(problem));
    plan.exposed_s = std::max(0.0, plan.buckets.back().end_s - input.backward_s);
  }
  plan.iteration_s = input.other_s + input.backward_s + plan.exposed_s;
  return plan;
}

void CutBucket(FusionPlan& plan, const FusionInput& input, int64_t at) {
  const auto it =
      std::ranges::find_if(plan.buckets, [&](const Bucket& b) { return b.first < at && at < b.first + b.count; });
  if (it == plan.buckets.end()) return;
  Bucket before = *it;
  before.count = at - before.first;
  before.bytes = 0;
  for (int64_t i = before.first; i < at; ++i) before.bytes += input.gradients[static_cast<size_t>(i)].bytes;
  it->first = at;
  it->count -= before.count;
  it->bytes -= before.bytes;
  plan.buckets.insert(it, std::move(before));
}

void CheckPlan(const FusionPlan& plan, const FusionInput& input) {
  const auto count = std::ssize(input.gradients);
  const auto fail = [&](size_t bucket) {
    throw Error(ErrorKind::kPeer,
                StrCat("bucket ", bucket, " of the first rank's plan of communication does not fit the ", count,
                       " gradients of this rank"));
  };
  int64_t next = 0;
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    if (bucket.first != next || bucket.count < 1 || bucket.count > count - next) fail(i);
    int64_t bytes = 0;
    for (; next < bucket.first + bucket.count; ++next) bytes += input.gradients[static_cast<size_t>(next)].bytes;
    if (bytes != bucket.bytes) fail(i);
  }
  if (next != count) fail(plan.buckets.size());
}

}  // namespace moka
