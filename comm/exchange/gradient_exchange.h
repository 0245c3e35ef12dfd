// Sums a program's gradients over all ranks while its backward pass goes on: a thread of its own runs the buckets of a
// plan in order, each from the moment its last gradient exists (wait-free backpropagation, Zhang et al. 2017). Buckets
// are neighbours in the order in which the backward pass ends them and are summed where they lie, so another plan needs
// no other program. A GPU's buckets are summed in a stream (comm/exchange/device_exchange.h).
//
// A program announces, begins and ends gradients by way of Collectives; what is public here is for whoever runs it,
// between iterations and by the same thread. Place may be called at any time by any thread, and Check and Cancel also
// while an exchange is under way.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/compression/compressed_bucket.h"
#include "comm/exchange/announced_gradients.h"
#include "comm/exchange/arrivals.h"
#include "comm/exchange/delayed_sums.h"
#include "comm/exchange/device_exchange.h"
#include "comm/exchanged_gradient.h"
#include "comm/schedule/runner.h"
#include "comm/transport/communicator.h"
#include "graph/collectives.h"

namespace moka {

class GradientExchange : public Collectives {
 public:
  // The communicator must outlive it; while gradients are exchanged it is the exchange's alone. `device`: for
  // gradients in a GPU's memory.
  explicit GradientExchange(Communicator& communicator, std::unique_ptr<DeviceExchange> device = nullptr);
  ~GradientExchange() override;

  // The gradients that are exchanged.
  const AnnouncedGradients& announced() const { return announced_; }
  // Before anything is announced: some gradients cross compressed (comm/compression), from an iteration on.
  void SetCompression(std::unique_ptr<GradientCompression> compression);
  // The way of a gradient that was announced, before the first plan.
  void SetRoute(int64_t key, GradientRoute route);
  // All gradients are announced: compares them among the ranks. Errors: kConfig naming the first that differs; those of
  // DeviceAllReduce::Connect.
  void CheckAnnounced();
  // Makes End give sums of `delay` iterations before, of the keys `controls` of what is no gradient the newest of age;
  // `loss` of them is the loss (comm/exchange/delayed_sums.h).
  void SetDelay(int delay, bool is_dynamic, const std::vector<int64_t>& controls, int64_t loss);
  // Null: sums are of the same iteration.
  DelayedSums* delays() const { return delays_.get(); }
  // ends: one past the last gradient of each bucket, ascending, the last the number of gradients. The same on all
  // ranks; each bucket runs by its own schedule. Requires: schedules are of this rank.
  void SetPlan(const std::vector<int>& ends, const std::vector<Schedule>& schedules, Wire wire);

  // The training's iteration that begins: compression draws and begins by it.
  void SetIteration(int64_t iteration) { iteration_ = iteration; }
  // Returns when nothing is on its way: from then to the next Begin the communicator is free. Errors: kPeer.
  void Drain();
  // Ends an exchange that is under way and tells the other ranks why. No exchange follows.
  void Cancel(const std::string& why) noexcept;
  // Errors: kPeer if an exchange has failed; what the program computed since is worth nothing.
  void Check() const;

  ExchangePlace Place() const;
  ExchangeTimes Times() const;
  // When this rank had each bucket, since SetPlan or since it was cleared.
  ArrivalLog& arrivals() { return arrivals_; }
  // Null on the CPU.
  DeviceExchange* device() const { return device_.get(); }

 private:
  struct Bucket {
    Message message;
    std::unique_ptr<Runner> runner;
    Message rest;                                  // without what is compressed
    std::unique_ptr<CompressedBucket> compressed;  // null: nothing is
    std::string_view name;                         // of names_
    int first = 0;
    int last = 0;
    int missing = 0;              // gradients that the iteration has not brought yet
    int64_t asked = 0;            // iterations in which it was complete
    int64_t done = 0;             // and those in which it was summed
    int64_t since_micros = 0;     // the iteration's first gradient
    int64_t finished_micros = 0;  // of the last sum
    BucketTimes sums = {};        // over iterations
  };

  // The program's side.
  void Announce(int64_t key, std::string_view layer, const Tensor& values) override;
  void AnnounceGroup(int64_t key, std::string_view layer, const Tensor& values, int ranks) override;
  void AnnounceParts(int64_t key, std::string_view layer, const PartsExchange& parts) override;
  void Begin(int64_t key) noexcept override;
  void End(int64_t key) noexcept override;
  void Begin(int64_t key, Stream& stream) override;
  void End(int64_t key, Stream& stream) override;
  void Await(Stream& stream) override;
  int64_t plan_number() const override { return device_ ? device_->plan_number() : 0; }

  // Gradients [first, last) as a bucket that is summed by `planned`, or as its way asks.
  Bucket MakeBucket(int first, int last, const Schedule& planned, Wire wire);
  void ArrangeCompressed(Bucket& bucket, const Schedule& planned);
  void ForgetTimes();
  void PlanOnDevice(const std::vector<Schedule>& schedules, Wire wire);
  void NoteNeed(int i);
  void EndDelayed(std::unique_lock<std::mutex>& lock, int b, int i);
  void Work(const std::stop_token& stop);
  void RunBucket(Bucket& bucket);
  void Sum(Bucket& bucket);
  // Returns the text of a failure, and tells the other ranks.
  std::string Explain(const std::string& what, const Bucket& bucket);
  void TakeDeviceTimes();

  Communicator& communicator_;
  AnnouncedGradients announced_;
  std::atomic<int64_t> iteration_ = 0;  // of the training
  std::vector<int> bucket_of_;          // by gradient
  std::vector<Bucket> buckets_;
  std::set<std::string, std::less<>> names_;  // of the buckets of all plans, which a trace may still speak of
  std::unique_ptr<DelayedSums> delays_;
  ArrivalLog arrivals_;
  int64_t iterations_ = 0;
  int begun_ = 0;  // gradients of this iteration
  int64_t begun_micros_ = 0;
  double exposed_s_ = 0;
  // How the next iteration reads the values that owners send: how many reads there were, the first one's moment, and
  // the time waited since.
  int needs_ = 0;
  int gathered_ = 0;  // how many there are in an iteration
  int64_t needs_from_micros_ = 0;
  int64_t needs_waited_micros_ = 0;
  int64_t need_rounds_ = 0;

  mutable std::mutex mutex_;  // of what follows, and of the buckets' counters and times
  std::condition_variable changed_;
  std::string failure_;
  int last_begun_ = -1;
  int running_ = -1;
  size_t next_ = 0;  // bucket that the thread sums next
  std::string cancelled_for_;
  std::atomic<bool> is_cancelled_ = false;
  std::unique_ptr<DeviceExchange> device_;
  std::jthread thread_;  // last: it uses all else
};

// The collectives that a program sums its gradients by.
inline Collectives& ProgramSide(GradientExchange& exchange) { return exchange; }

}  // namespace moka
