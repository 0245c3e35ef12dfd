// The facts that the exchange of gradients knows of a gradient and of a bucket, and how far it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moka {

// One gradient as the exchange knows it, in the order of the program's steps.
struct ExchangedGradient {
  std::string layer;
  int64_t bytes = 0;   // of float32
  double ready_s = 0;  // mean, from the first gradient of the iteration on
  // The mean moment, for a weight that comes from its owner, at which the next iteration reads it, from the first such
  // moment on, without what is waited for.
  double needed_s = 0;
};

// How far a rank is, for who looks for the one that holds up the others.
struct ExchangePlace {
  int64_t iteration = 0;   // begun, since the plan
  std::string layer = {};  // of the last gradient computed
  int bucket = -1;         // being summed; -1: none
};

// One bucket of the last iterations.
struct BucketTimes {
  double ready_s = 0;  // its last gradient, from the first of the iteration on
  double begin_s = 0;
  double end_s = 0;
};

// The time that an exchange took since its plan was made.
struct ExchangeTimes {
  std::vector<BucketTimes> buckets = {};  // means
  int64_t iterations = 0;
  double exposed_s = 0;      // that the program waited in an iteration
  double all_exposed_s = 0;  // and in all of them
};

}  // namespace moka
