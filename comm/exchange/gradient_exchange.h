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
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/compression/compressed_bucket.h"
#include "comm/exchange/arrivals.h"
#include "comm/exchange/delay_line.h"
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

  // Before anything is announced: some gradients cross compressed (comm/compression), from an iteration on.
  void SetCompression(std::unique_ptr<GradientCompression> compression) { compression_ = std::move(compression); }
  // Null without; the compressed form of gradient i, null for one that crosses as it is.
  GradientCompression* compression() const { return compression_.get(); }
  CompressedGradient* compressed(size_t i) const { return compressed_[i]; }
  // The training's iteration that begins: compression draws and begins by it.
  void SetIteration(int64_t iteration) { iteration_ = iteration; }

  void Announce(int64_t key, std::string_view layer, const Tensor& values) override;
  void AnnounceGroup(int64_t key, std::string_view layer, const Tensor& values, int ranks) override;
  void AnnounceParts(int64_t key, std::string_view layer, const PartsExchange& parts) override;
  void Begin(int64_t key) noexcept override;
  void End(int64_t key) noexcept override;
  void Begin(int64_t key, Stream& stream) override;
  void End(int64_t key, Stream& stream) override;
  void Await(Stream& stream) override;
  int64_t plan_number() const override { return device_ ? device_->plan_number() : 0; }

  // The rest between iterations, by the thread that runs the program.
  // All gradients are announced: compares them among the ranks. Errors: kConfig naming the first that differs; those of
  // DeviceAllReduce::Connect.
  void CheckAnnounced();
  // ends: one past the last gradient of each bucket, ascending, the last the number of gradients. The same on all
  // ranks; each bucket runs by its own schedule. Requires: schedules are of this rank.
  void SetPlan(const std::vector<int>& ends, const std::vector<Schedule>& schedules, Wire wire);
  // Before the first plan: gradient `key` goes to the rank that owns it alone, or is not summed but its owner's on all
  // ranks afterwards: those come last, and may be on their way until the next iteration asks for them. Others are
  // summed for all, always as float32 (what is no gradient: losses, statistics), in groups of `owner` ranks, or moved
  // as AnnounceParts says.
  enum class Way : uint8_t { kToAll, kExactToAll, kToOwner, kFromOwner, kInGroup, kParts };
  void SetWay(int64_t key, Way way, int owner);
  // Before the first plan: what End gives are sums of `delay` iterations before, zeros at first (cyclic bounded delay;
  // with 1 it is Pipe-SGD, Li et al., NeurIPS 2018). `controls` are the keys of what is no gradient: the sum of the
  // newest iteration of age, in this process' first iterations the current one. `loss` of them is the loss: where its
  // sum is not finite, the iteration's gradients count as zeros.
  void SetDelay(int delay, bool is_dynamic, const std::vector<int64_t>& controls, int64_t loss);
  bool is_delayed() const { return delays_ != nullptr; }
  // Returns when nothing is on its way: from then to the next Begin the communicator is free. Errors: kPeer.
  void Drain();
  // With delays, all ranks between iterations, every kAdaptEvery of them: a bucket that is waited for is taken an
  // iteration later, up to the delay given, and one that would have been there an iteration sooner, sooner. Errors:
  // kPeer.
  static constexpr int kAdaptEvery = 16;
  void AdaptDelays();
  // The sums of gradient `key` that wait, `age` (1 up to the delay) iterations before the next: for checkpoints.
  // Requires: drained.
  void SaveWaiting(int64_t key, int age, std::span<float> values) const;
  void LoadWaiting(int64_t key, int age, std::span<const float> values);
  // "delays of 0, 1, 1 iterations"; empty without.
  std::string DescribeDelays() const;
  // Gradients behind which a bucket ends whatever the plan, ascending, each one past the last: ways differ there.
  std::vector<int> Cuts() const;
  // The rank to or from which alone gradient i goes; -1 if it is summed for several.
  int OwnerOf(size_t i) const {
    return routes_[i].way == Way::kToOwner || routes_[i].way == Way::kFromOwner ? routes_[i].owner : -1;
  }
  // The first gradient that comes from its owner; the number of gradients if none does.
  int first_gathered() const;
  // No plan follows that needs to know when each gradient is ready: a GPU's step goes without taking these times.
  void EndTiming();
  // Null on the CPU.
  DeviceExchange* device() const { return device_.get(); }
  // Ends an exchange that is under way and tells the other ranks why. No exchange follows.
  void Cancel(const std::string& why) noexcept;
  ExchangePlace Place() const;
  // Errors: kPeer if an exchange has failed; what the program computed since is worth nothing.
  void Check() const;
  const std::vector<ExchangedGradient>& gradients() const { return gradients_; }
  // Means since SetPlan, by bucket, and how long the program waited for them in an iteration and in all of them.
  std::vector<BucketTimes> Times() const;
  double exposed_s() const;
  double all_exposed_s() const;
  int64_t iterations() const { return iterations_; }
  // When this rank had each bucket, since SetPlan or ClearArrivals.
  const ArrivalLog& arrivals() const { return arrivals_; }
  void ClearArrivals() { arrivals_.Clear(); }

 private:
  struct Bucket {
    Message message;
    std::unique_ptr<Runner> runner;
    Message rest;                                  // without what is compressed
    std::unique_ptr<CompressedBucket> compressed;  // null: nothing is
    std::string_view name;                         // of names_
    int first = 0;
    int last = 0;
    int missing = 0;           // gradients that the iteration has not brought yet
    int64_t asked = 0;         // iterations in which it was complete
    int64_t done = 0;          // and those in which it was summed
    int64_t since_micros = 0;  // the iteration's first gradient
    double ready_s = 0;        // sums over iterations
    double begin_s = 0;
    double end_s = 0;
    // Of delayed sums.
    int delay = 0;
    std::vector<Message> slots = {};  // by iteration
    double exposed_s = 0;             // waited for since AdaptDelays
    double slack_s = 0;               // least time that a sum was there before it was asked for
    int64_t finished_micros = 0;      // of the last sum
  };

  // The bucket's message in the order in which its schedule sends it, and that schedule.
  Schedule Arrange(Bucket& bucket, const Schedule& planned);
  void ArrangeCompressed(Bucket& bucket, const Schedule& planned);
  // The end of the bucket that begins at gradient `first` and ends at `end` at the latest: all of one way.
  int EndOfWay(int first, int end) const;
  void NoteNeed(int i);
  void EndDelayed(std::unique_lock<std::mutex>& lock, Bucket& bucket, int i);
  void BuildSlots(Bucket& bucket, int delay);
  void Work(const std::stop_token& stop);
  void RunBucket(Bucket& bucket);
  void Sum(Bucket& bucket);
  // What is to be said of a failure; tells the other ranks.
  std::string Explain(const std::string& what, const Bucket& bucket);
  void TakeDeviceTimes();

  Communicator& communicator_;
  std::vector<ExchangedGradient> gradients_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<GradientCompression> compression_;
  std::vector<CompressedGradient*> compressed_;  // by gradient
  std::atomic<int64_t> iteration_ = 0;           // of the training
  std::map<int64_t, int> index_of_key_;
  struct Route {
    Way way = Way::kToAll;
    int owner = 0;
    bool operator==(const Route&) const = default;
  };
  std::vector<Route> routes_;           // by gradient
  std::map<int, PartsExchange> parts_;  // by gradient
  std::vector<int> bucket_of_;          // by gradient
  std::vector<Bucket> buckets_;
  std::set<std::string, std::less<>> names_;  // of the buckets of all plans, which a trace may still speak of
  ArrivalLog arrivals_;
  int64_t iterations_ = 0;
  int begun_ = 0;  // gradients of this iteration
  int64_t begun_micros_ = 0;
  double exposed_s_ = 0;
  // Of the next iteration's reads of what comes from owners: how many there were, the first, what was waited since.
  int needs_ = 0;
  int gathered_ = 0;  // how many there are in an iteration
  int64_t needs_from_micros_ = 0;
  int64_t needs_waited_micros_ = 0;
  int64_t need_rounds_ = 0;
  std::unique_ptr<DelayLine> delays_;  // null: sums are of the same iteration
  bool has_dynamic_delay_ = false;
  int loss_ = -1;               // gradient
  std::vector<int64_t> taken_;  // by gradient: iterations before this one are in the weights
  int64_t before_ = 0;          // iterations of the plans before
  int64_t last_micros_ = 0;     // AdaptDelays was called

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

}  // namespace moka
