// Orders the sums by events alone: ready -> begin -> end in the communication stream, read in the program's. No call
// here waits, so that a whole step, sums included, can be captured as a CUDA graph and replayed.
#include "comm/exchange/device_exchange.h"

#include <algorithm>

#include "comm/device/make_all_reduce.h"
#include "core/error.h"

namespace moka {

DeviceExchange::DeviceExchange(const Device& device, std::unique_ptr<DeviceAllReduce> all_reduce)
    : device_(device), all_reduce_(std::move(all_reduce)), done_(MakeEvent(device)), stream_(MakeStream(device)) {}

void DeviceExchange::SetPlan(std::vector<DeviceBucket> buckets, Wire wire) {
  Require(!buckets.empty(), "a plan has buckets");
  ++plan_number_;
  wire_ = wire;
  buckets_.clear();
  bucket_of_.assign(static_cast<size_t>(buckets.back().last), 0);
  for (DeviceBucket& content : buckets) {
    std::fill(bucket_of_.begin() + content.first, bucket_of_.begin() + content.last, static_cast<int>(buckets_.size()));
    Bucket bucket;
    bucket.content = std::move(content);
    for (std::unique_ptr<Event>* event : {&bucket.ready, &bucket.begin, &bucket.end, &bucket.read}) {
      *event = MakeEvent(device_);
    }
    buckets_.push_back(std::move(bucket));
  }
  while (ready_.size() < bucket_of_.size()) ready_.push_back(MakeEvent(device_));
}

void DeviceExchange::TakeTimesOfGradients(bool is_wanted) {
  takes_times_of_gradients_ = is_wanted;
  ++plan_number_;
}

void DeviceExchange::Begin(int gradient, Stream& stream) {
  if (gradient == 0) {
    for (Bucket& bucket : buckets_) bucket.is_read = false;
  }
  if (gradient == 0 || takes_times_of_gradients_) stream.Record(*ready_[static_cast<size_t>(gradient)]);
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(gradient)])];
  if (gradient + 1 != bucket.content.last) return;
  stream.Record(*bucket.ready);
  stream_->WaitFor(*bucket.ready);
  stream_->Record(*bucket.begin);
  all_reduce_->Queue(bucket.content.message, bucket.content.schedule, wire_, *stream_);
  stream_->Record(*bucket.end);
}

void DeviceExchange::End(int gradient, Stream& stream) {
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(gradient)])];
  if (std::exchange(bucket.is_read, true)) return;
  stream.Record(*bucket.read);
  stream.WaitFor(*bucket.end);
}

StreamWait DeviceExchange::Wait(Stream& stream, std::chrono::nanoseconds patience,
                                const std::function<bool()>& has_moved) {
  stream.Record(*done_);
  return WaitForStream(*done_, *all_reduce_, patience, has_moved);
}

int DeviceExchange::BegunBuckets() const {
  return static_cast<int>(std::ranges::count_if(buckets_, [](const Bucket& b) { return b.begin->IsDone(); }));
}

int DeviceExchange::EndedBuckets() const {
  return static_cast<int>(std::ranges::count_if(buckets_, [](const Bucket& b) { return b.end->IsDone(); }));
}

void DeviceExchange::Abort(Stream& stream) {
  all_reduce_->Abort();
  stream.Synchronize();
}

DeviceExchange::StepTimes DeviceExchange::TimesOf(int bucket) const {
  const Bucket& b = buckets_[static_cast<size_t>(bucket)];
  StepTimes times{SecondsSinceBegin(*b.ready), SecondsSinceBegin(*b.begin), SecondsSinceBegin(*b.end), 0};
  times.waited_s = std::max(0.0, times.end_s - SecondsSinceBegin(*b.read));
  return times;
}

std::optional<double> DeviceExchange::ReadySeconds(int gradient) const {
  if (!takes_times_of_gradients_) return std::nullopt;
  return SecondsSinceBegin(*ready_[static_cast<size_t>(gradient)]);
}

std::unique_ptr<DeviceExchange> MakeDeviceExchange(const Device& device, Communicator& communicator) {
  if (device.is_cpu()) return nullptr;
  return std::make_unique<DeviceExchange>(device, MakeDeviceAllReduce(device, communicator));
}

}  // namespace moka
