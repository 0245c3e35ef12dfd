// Sums that are in the weights some iterations after their gradients were computed (cyclic bounded delay; with 1 it is
// Pipe-SGD, Li et al., NeurIPS 2018): what waits, how late each bucket is, and when what has come of age is taken. The
// gradients' exchange (comm/exchange/gradient_exchange.h) asks it where to sum, and adds what it had to wait.
//
// One thread runs the program and makes all calls but MessageAt and NoteLoss, which the thread that sums makes of
// buckets that are complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange/delay_line.h"
#include "comm/schedule/message.h"
#include "comm/transport/communicator.h"

namespace moka {

class DelayedSums {
 public:
  struct Setting {
    int delay = 1;            // at most, in iterations; zeros are taken at first
    bool is_dynamic = false;  // each bucket is as late as it must be for nobody to wait
    // By gradient: it is no gradient but a number such as the loss, of which the newest iteration that is old enough is
    // taken; in this process's first iterations, where none is, the current one.
    std::vector<bool> is_control = {};
    int loss = 0;  // of these: where its sum is not finite, the iteration's gradients count as zeros
  };
  DelayedSums(const std::vector<Tensor>& gradients, Setting setting);

  const Setting& setting() const { return setting_; }

  // A plan's buckets in order: gradients [first, last), late or not. What waits stays.
  struct Range {
    int first = 0;
    int last = 0;
    bool is_delayed = true;
  };
  void SetBuckets(const std::vector<Range>& ranges);
  bool IsDelayed(int bucket) const { return !buckets_[static_cast<size_t>(bucket)].slots.empty(); }
  // That of the loss.
  int loss_bucket() const { return bucket_of_[static_cast<size_t>(setting_.loss)]; }

  // The bucket's gradients of this iteration are complete: they wait from now on.
  void Put(int bucket);
  // MessageAt: where the bucket lies in iteration `done` of the plan; NoteLoss is called once that sum is there.
  const Message& MessageAt(int bucket, int64_t done) const;
  void NoteLoss(int bucket, int64_t done);

  // Needed: how many iterations of the plan must have been summed before the bucket's gradients can be taken. NoteWait
  // and NoteSlack: how long the program waited for them, or how long they had been there. Take: gradient i becomes its
  // sum.
  int64_t Needed(int bucket) const;
  void NoteWait(int bucket, double seconds) { buckets_[static_cast<size_t>(bucket)].exposed_s += seconds; }
  void NoteSlack(int bucket, double seconds);
  void Take(int bucket, int i);

  // All ranks between iterations, every kAdaptEvery of them, with nothing on its way: a bucket that is waited for is
  // taken an iteration later, up to the delay given, and one that would have been there an iteration sooner, sooner.
  // Errors: kPeer. Requires: Setting::is_dynamic.
  static constexpr int kAdaptEvery = 16;
  void Adapt(Communicator& world);

  // The sums of gradient i that wait, `age` (1 up to the delay) iterations before the next: for checkpoints. Requires:
  // nothing is on its way; Load: before the first iteration.
  void Save(int i, int age, std::span<float> values) const;
  void Load(int i, int age, std::span<const float> values);
  // "updates are 0, 1, 1 iterations late, by bucket".
  std::string Describe() const;

 private:
  struct Bucket {
    Range range;
    int delay = 0;
    std::vector<Message> slots = {};  // by iteration; none: it is not late
    int64_t asked = 0;                // iterations in which it was complete
    double exposed_s = 0;             // waited for since Adapt
    double slack_s = 0;               // least time that a sum was there before it was asked for
  };
  // One past the newest iteration of age.
  int64_t End(const Bucket& bucket) const { return before_ + bucket.asked - bucket.delay; }
  Bucket& BucketOf(int i) { return buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])]; }
  const Bucket& BucketOf(int i) const { return buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])]; }

  Setting setting_;
  DelayLine line_;
  std::vector<int> bucket_of_;  // by gradient
  std::vector<Bucket> buckets_;
  std::vector<int64_t> taken_;  // by gradient: iterations before this one are in the weights
  int64_t before_ = 0;          // iterations of the plans before
  int64_t last_micros_ = 0;     // Adapt was called
};

}  // namespace moka
