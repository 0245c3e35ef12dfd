// Plans which gradients are joined into one all-reduce. Gradients come in the order in which the backward pass ends
// them; a bucket is a run of that order. There is one stream of communication: a bucket's all-reduce begins when its
// last gradient is ready and the bucket before has ended.
//
// "optimal" is exact (its recurrence stands in the source). "greedy" is the merging of Shi, Chu and Li, "MG-WFBP:
// Efficient Data Communication for Distributed Synchronous SGD Algorithms", INFOCOM 2019; "two" the cut of Jia et al.,
// "Highly Scalable Deep Learning Training System with Mixed-Precision", 2018.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/exchange/cost_curve.h"

namespace moka {

struct ReadyGradient {
  std::string name;
  int64_t bytes = 0;   // as they travel
  double ready_s = 0;  // from the start of the backward pass; never falls from one gradient to the next
  // The rank to or from which alone it goes; -1: all-reduced. Where links or sums are slow a bucket takes as long as
  // the owner who has most of it: as an all-reduce of half of that, times the ranks.
  int owner = -1;
};

struct FusionInput {
  std::vector<ReadyGradient> gradients;
  double backward_s = 0;  // of the whole backward pass, at least the last ready_s
  double other_s = 0;     // of an iteration without it: forward pass and update
  int ranks = 0;          // read where gradients have owners
};

// Gradients [first, first + count).
struct Bucket {
  int64_t first = 0;
  int64_t count = 0;
  int64_t bytes = 0;
  std::string algorithm;
  double begin_s = 0;  // predicted, from the start of the backward pass
  double end_s = 0;

  bool operator==(const Bucket&) const = default;
};

// A value: computed on one rank and sent to all as text, or computed on each from the same input. Equal hashes are
// equal plans, which all ranks compare before the first bucket.
struct FusionPlan {
  std::string planner;
  uint64_t gradients_hash = 0;  // HashOf the gradients it was made for
  std::vector<Bucket> buckets;
  double exposed_s = 0;    // predicted: communication after the end of the backward pass
  double iteration_s = 0;  // predicted

  bool operator==(const FusionPlan&) const = default;
};

struct FusionPlanner {
  std::string_view name;
  std::string_view doc;
};
// All planners, the exact one first.
std::span<const FusionPlanner> FusionPlanners();

// Requires: what ReadyGradient and FusionInput say; a table that is not empty. `bucket_bytes` is read by "fixed" alone:
// a bucket ends with the gradient that brings it to so many bytes. No gradients: no buckets. Errors: kConfig for an
// unknown planner, with the nearest one, and for bucket_bytes below 1.
FusionPlan PlanFusion(std::string_view planner, const FusionInput& input, const CostTable& costs, int64_t bucket_bytes);

// A bucket ends before gradient `at`, if none does: the one that has gradients on both sides becomes two, with its
// algorithm and times.
void CutBucket(FusionPlan& plan, const FusionInput& input, int64_t at);

// That the buckets hold all gradients, one behind the other, with their bytes: of a plan that another rank sent.
// Errors: kPeer.
void CheckPlan(const FusionPlan& plan, const FusionInput& input);

// Names, their order and bytes; not when they are ready, which every rank measures for itself.
uint64_t HashOf(std::span<const ReadyGradient> gradients);
uint64_t HashOf(const FusionPlan& plan);

// Reads back to an equal plan. Errors of PlanOfText: kBadData with the line.
std::string ToText(const FusionPlan& plan);
FusionPlan PlanOfText(std::string_view text);

}  // namespace moka
