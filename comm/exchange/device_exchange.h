// The exchange of gradients in a GPU's program (comm/exchange/gradient_exchange.h): buckets are summed in a stream of
// their own, which events hold between the gradients and what reads the sums. The host only queues, so that a step can
// be recorded with its sums; what it knows of times it reads from events after each step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/device/device_all_reduce.h"
#include "comm/transport/communicator.h"

namespace moka {

// A bucket of a plan: gradients [first, last).
struct DeviceBucket {
  int first = 0;
  int last = 0;
  Message message;  // in the device's memory
  Schedule schedule = {};
};

class DeviceExchange {
 public:
  DeviceExchange(const Device& device, std::unique_ptr<DeviceAllReduce> all_reduce);

  void Connect() { all_reduce_->Connect(*stream_); }
  // Steps recorded before are out of date.
  void SetPlan(std::vector<DeviceBucket> buckets, Wire wire);
  // Whether the time of each gradient is taken; at first it is. Steps recorded before are out of date.
  void TakeTimesOfGradients(bool is_wanted);
  int64_t plan_number() const { return plan_number_; }

  // While a step is queued: the stream comes to a gradient, or to where its sum is read. Gradients begin in order.
  void Begin(int gradient, Stream& stream);
  void End(int gradient, Stream& stream);

  // Waits for a step of `stream`. Errors: none; what went wrong is in the result. `has_moved` as for WaitForStream.
  StreamWait Wait(Stream& stream, std::chrono::nanoseconds patience, const std::function<bool()>& has_moved);
  // The buckets whose sums the step has begun, and ended.
  int BegunBuckets() const;
  int EndedBuckets() const;
  // The sums end, and with them the stream's work.
  void Abort(Stream& stream);
  void Abort() noexcept { all_reduce_->Abort(); }

  // A bucket's moments in the last step, in seconds from the step's first gradient on. Requires: the step is done.
  struct StepTimes {
    double ready_s = 0;
    double begin_s = 0;
    double end_s = 0;
    double waited_s = 0;  // by the program
  };
  StepTimes TimesOf(int bucket) const;
  // The gradient's moment in the same step; none where these are not taken.
  std::optional<double> ReadySeconds(int gradient) const;

  DeviceAllReduce& all_reduce() { return *all_reduce_; }
  Stream& stream() { return *stream_; }

 private:
  struct Bucket {
    DeviceBucket content;
    std::unique_ptr<Event> ready;  // its last gradient
    std::unique_ptr<Event> begin;
    std::unique_ptr<Event> end;
    std::unique_ptr<Event> read;  // the program has come to where the first of its sums is read
    bool is_read = false;         // while a step is queued
  };
  double SecondsSinceBegin(const Event& event) const { return event.MillisSince(*ready_.front()) * 1e-3; }

  Device device_;
  std::unique_ptr<DeviceAllReduce> all_reduce_;
  Wire wire_ = Wire::kFloat32;
  int64_t plan_number_ = 0;
  bool takes_times_of_gradients_ = true;
  std::vector<int> bucket_of_;                 // by gradient
  std::vector<std::unique_ptr<Event>> ready_;  // by gradient; only the first's without times
  std::vector<Bucket> buckets_;
  std::unique_ptr<Event> done_;
  std::unique_ptr<Stream> stream_;  // last: its work uses all else
};

// For a program of `device`; null for the CPU's. The communicator must outlive it.
std::unique_ptr<DeviceExchange> MakeDeviceExchange(const Device& device, Communicator& communicator);

}  // namespace moka
