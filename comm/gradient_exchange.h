// Sums a program's gradients over all ranks while its backward pass goes on: a thread of its own runs the buckets of a
// plan in order, each from the moment its last gradient exists (wait-free backpropagation, Zhang et al. 2017). Buckets
// are neighbours in the order in which the backward pass ends them and are summed where they lie, so another plan needs
// no other program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/runner.h"
#include "graph/collectives.h"

namespace moka {

// One gradient as the exchange knows it, in the order of the program's steps.
struct ExchangedGradient {
  std::string layer;
  int64_t bytes = 0;   // of float32
  double ready_s = 0;  // mean, from the first gradient of the iteration on
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

class GradientExchange : public Collectives {
 public:
  // The communicator must outlive it; while gradients are exchanged it is the exchange's alone.
  explicit GradientExchange(Communicator& communicator);
  ~GradientExchange() override;

  void Announce(int64_t key, std::string_view layer, const Tensor& values) override;
  void Begin(int64_t key) noexcept override;
  void End(int64_t key) noexcept override;

  // The rest between iterations, by the thread that runs the program.
  // All gradients are announced: compares them among the ranks. Errors: kConfig naming the first that differs.
  void CheckAnnounced();
  // ends: one past the last gradient of each bucket, ascending, the last the number of gradients. The same on all
  // ranks; each bucket runs by its own schedule. Requires: schedules are of this rank.
  void SetPlan(const std::vector<int>& ends, const std::vector<Schedule>& schedules, Wire wire);
  // Ends an exchange that is under way and tells the other ranks why. No exchange follows.
  void Cancel(const std::string& why) noexcept;
  ExchangePlace Place() const;
  // Errors: kPeer if an exchange has failed; what the program computed since is worth nothing.
  void Check() const;
  const std::vector<ExchangedGradient>& gradients() const { return gradients_; }
  // Means since SetPlan, by bucket, and how long the program waited for them in an iteration.
  std::vector<BucketTimes> Times() const;
  double exposed_s() const;
  int64_t iterations() const { return iterations_; }

 private:
  struct Bucket {
    Message message;
    std::unique_ptr<Runner> runner;
    std::string name;  // in traces
    int first = 0;
    int last = 0;
    int missing = 0;     // gradients that the iteration has not brought yet
    int64_t asked = 0;   // iterations in which it was complete
    int64_t done = 0;    // and those in which it was summed
    double ready_s = 0;  // sums over iterations
    double begin_s = 0;
    double end_s = 0;
  };

  void Work(const std::stop_token& stop);
  void RunBucket(Bucket& bucket);
  // What is to be said of a failure; tells the other ranks.
  std::string Explain(const std::string& what, const Bucket& bucket);
  double SinceBegin() const;

  Communicator& communicator_;
  std::vector<ExchangedGradient> gradients_;
  std::vector<Tensor> tensors_;
  std::map<int64_t, int> index_of_key_;
  std::vector<int> bucket_of_;  // by gradient
  std::vector<Bucket> buckets_;
  int64_t iterations_ = 0;
  int begun_ = 0;  // gradients of this iteration
  int64_t begun_micros_ = 0;
  double exposed_s_ = 0;

  mutable std::mutex mutex_;  // of what follows, and of the buckets' counters and times
  std::condition_variable changed_;
  std::string failure_;
  int last_begun_ = -1;
  int running_ = -1;
  std::string cancelled_for_;
  std::atomic<bool> is_cancelled_ = false;
  std::jthread thread_;  // last: it uses all else
};

}  // namespace moka
