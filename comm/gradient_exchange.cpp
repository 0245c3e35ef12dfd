#include "comm/gradient_exchange.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {

GradientExchange::GradientExchange(Communicator& communicator, std::unique_ptr<DeviceExchange> device)
    : communicator_(communicator), device_(std::move(device)) {}

GradientExchange::~GradientExchange() {
  if (!device_) Cancel("it ended in the middle of an iteration");
  thread_.request_stop();
  changed_.notify_all();
}

void GradientExchange::Cancel(const std::string& why) noexcept {
  if (device_) {
    if (communicator_.transport().failure().empty()) communicator_.Fail(why);  // before they see that NCCL has ended
    return device_->Abort();
  }
  std::unique_lock lock(mutex_);
  const auto is_idle = [&] {
    return !failure_.empty() || std::ranges::all_of(buckets_, [](const Bucket& b) { return b.done == b.asked; });
  };
  const bool was_idle = is_idle() && begun_ == 0;
  if (was_idle) return;
  cancelled_for_ = why;
  is_cancelled_ = true;
  if (begun_ != 0 && is_idle()) {  // the others wait for what this rank will not begin
    if (failure_.empty()) communicator_.Fail(why);
    return;
  }
  changed_.wait(lock, is_idle);
}

void GradientExchange::Announce(int64_t key, std::string_view layer, const Tensor& values) {
  Require(!thread_.joinable(), "gradients are announced before the first plan");
  Require(values.type().dtype == DType::kFloat32, "gradients are exchanged in float32");
  const bool is_new = index_of_key_.emplace(key, static_cast<int>(gradients_.size())).second;
  Require(is_new, "a gradient is announced once");
  gradients_.push_back({std::string(layer), values.type().Bytes(), 0});
  tensors_.push_back(values);
}

void GradientExchange::CheckAnnounced() {
  std::string mine;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    mine += StrCat(gradients_[i].layer, " ", tensors_[i].type().ToString(), "\n");
  }
  const std::vector<std::string> all = communicator_.AllGather(mine);
  for (int rank = 1; rank < communicator_.size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == all[0]) continue;
    const std::vector<std::string> first = Split(all[0], '\n');
    const std::vector<std::string> other = Split(all[static_cast<size_t>(rank)], '\n');
    const size_t at = static_cast<size_t>(std::ranges::mismatch(first, other).in1 - first.begin());
    const auto line = [&](const std::vector<std::string>& lines) {
      return at < lines.size() && !lines[at].empty() ? lines[at] : std::string("no more");
    };
    throw Error(ErrorKind::kConfig, SourcePlace{},
                StrCat("the ranks do not train the same program: gradient ", at, " is \"", line(first), "\" on ",
                       communicator_.NameOf(0), " and \"", line(other), "\" on ", communicator_.NameOf(rank)),
                "start the same moka with the same solver, net and flags on every host");
  }
  if (device_) device_->Connect();
}

void GradientExchange::SetPlan(const std::vector<int>& ends, const std::vector<Schedule>& schedules, Wire wire) {
  Require(!ends.empty() && ends.back() == static_cast<int>(gradients_.size()) && schedules.size() == ends.size(),
          "a plan covers all gradients, with a schedule for each bucket");
  const std::lock_guard lock(mutex_);
  buckets_.clear();
  bucket_of_.assign(gradients_.size(), 0);
  int first = 0;
  for (size_t b = 0; b < ends.size(); ++b) {
    Bucket bucket;
    bucket.first = first;
    bucket.last = ends[b];
    bucket.missing = ends[b] - first;
    bucket.name = StrCat("bucket ", b, " of ", ends.size());
    if (!device_) bucket.runner = std::make_unique<Runner>(communicator_.transport(), schedules[b], wire);
    for (; first < ends[b]; ++first) {
      const std::span<float> values = tensors_[static_cast<size_t>(first)].as<float>();
      bucket.message.Append(values.data(), static_cast<int64_t>(values.size()));
      bucket_of_[static_cast<size_t>(first)] = static_cast<int>(b);
    }
    buckets_.push_back(std::move(bucket));
  }
  for (ExchangedGradient& gradient : gradients_) gradient.ready_s = 0;
  iterations_ = 0;
  exposed_s_ = 0;
  if (device_) {
    std::vector<DeviceBucket> on_device;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      on_device.push_back({buckets_[b].first, buckets_[b].last, buckets_[b].message, schedules[b]});
    }
    return device_->SetPlan(std::move(on_device), wire);
  }
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

double GradientExchange::SinceBegin() const { return static_cast<double>(NowMicros() - begun_micros_) * 1e-6; }

void GradientExchange::Begin(int64_t key) noexcept {
  const int i = index_of_key_.find(key)->second;
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) {
    begun_micros_ = NowMicros();
    ++iterations_;
  }
  if (++begun_ == static_cast<int>(gradients_.size())) begun_ = 0;
  last_begun_ = i;
  const double now = SinceBegin();
  gradients_[static_cast<size_t>(i)].ready_s +=
      (now - gradients_[static_cast<size_t>(i)].ready_s) / static_cast<double>(iterations_);
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])];
  if (--bucket.missing > 0) return;
  bucket.missing = bucket.last - bucket.first;
  bucket.ready_s += now;
  ++bucket.asked;
  changed_.notify_all();
}

void GradientExchange::End(int64_t key) noexcept {
  const int i = index_of_key_.find(key)->second;
  std::unique_lock lock(mutex_);
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])];
  if (bucket.done == bucket.asked || !failure_.empty()) return;
  const int64_t begin = NowMicros();
  changed_.wait(lock, [&] { return bucket.done == bucket.asked || !failure_.empty(); });
  exposed_s_ += static_cast<double>(NowMicros() - begin) * 1e-6;
}

void GradientExchange::Begin(int64_t key, Stream& stream) { device_->Begin(index_of_key_.find(key)->second, stream); }

void GradientExchange::End(int64_t key, Stream& stream) { device_->End(index_of_key_.find(key)->second, stream); }

void GradientExchange::Await(Stream& stream) {
  int64_t before = 0;
  {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) {
      lock.unlock();
      return device_->Abort(stream);
    }
    ++iterations_;
    before = collectives_;
  }
  int ended = -1;
  int begun = 0;
  const auto has_moved = [&] {
    begun = device_->BegunBuckets();
    const int now = device_->EndedBuckets();
    const std::lock_guard lock(mutex_);
    collectives_ = before + begun;
    running_ = begun > now ? begun - 1 : -1;
    if (begun > 0) last_begun_ = buckets_[static_cast<size_t>(begun - 1)].last - 1;
    return std::exchange(ended, now + begun) != now + begun;
  };
  StreamWait wait = device_->Wait(stream, communicator_.patience(), std::ref(has_moved));
  if (wait.is_done && wait.failure.empty()) {
    const std::lock_guard lock(mutex_);
    collectives_ = before + static_cast<int64_t>(buckets_.size());
    running_ = -1;
    return TakeDeviceTimes();
  }
  // `begun` is that of the last look: sums that are given up end, and later ones with them.
  if (wait.failure.empty()) {
    wait.failure = StrCat("rank ", communicator_.rank(), " has waited ",
                          std::chrono::duration<double>(communicator_.patience()).count(), " s for its GPU, which ",
                          begun == 0 ? "has begun no sum" : "waits for the other ranks");
  }
  const std::string text = Explain(wait.failure, buckets_[static_cast<size_t>(std::max(begun - 1, 0))]);
  {
    const std::lock_guard lock(mutex_);
    failure_ = text;
  }
  device_->Abort(stream);
}

void GradientExchange::TakeDeviceTimes() {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const DeviceExchange::StepTimes times = device_->TimesOf(static_cast<int>(b));
    buckets_[b].ready_s += times.ready_s;
    buckets_[b].begin_s += times.begin_s;
    buckets_[b].end_s += times.end_s;
    ++buckets_[b].done;
    exposed_s_ += times.waited_s;
  }
  if (!device_->takes_times_of_gradients()) return;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    double& mean = gradients_[i].ready_s;
    mean += (device_->ReadySeconds(static_cast<int>(i)) - mean) / static_cast<double>(iterations_);
  }
}

void GradientExchange::EndTiming() {
  if (device_) device_->TakeTimesOfGradients(false);
}

void GradientExchange::Work(const std::stop_token& stop) {
  for (size_t b = 0;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        if (stop.stop_requested()) return true;
        return buckets_[b].done < buckets_[b].asked && failure_.empty();
      });
      if (stop.stop_requested()) return;
    }
    RunBucket(buckets_[b]);
    b = (b + 1) % buckets_.size();
  }
}

void GradientExchange::RunBucket(Bucket& bucket) {
  const double begin = SinceBegin();
  const int64_t begin_micros = TraceIsOn() ? NowMicros() : -1;
  {
    const std::lock_guard lock(mutex_);
    ++collectives_;
    running_ = static_cast<int>(&bucket - buckets_.data());
  }
  std::string failure;
  try {
    bucket.runner->Run(bucket.message, communicator_.patience(), &is_cancelled_);
  } catch (const std::exception& error) {  // a thread has nobody to throw to
    failure = Explain(error.what(), bucket);
  }
  if (begin_micros >= 0) TraceSpan(bucket.name, "collective", begin_micros, NowMicros());
  const std::lock_guard lock(mutex_);
  bucket.begin_s += begin;
  bucket.end_s += SinceBegin();
  ++bucket.done;
  running_ = -1;
  failure_ = std::move(failure);
  changed_.notify_all();
}

std::string GradientExchange::Explain(const std::string& what, const Bucket& bucket) {
  if (!communicator_.transport().failure().empty()) return what;  // another rank's words
  std::string text;
  if (is_cancelled_) {
    const std::lock_guard lock(mutex_);
    text = cancelled_for_;
  } else {
    text = StrCat(what, " (", bucket.name, ", from layer \"", gradients_[static_cast<size_t>(bucket.first)].layer,
                  "\" to \"", gradients_[static_cast<size_t>(bucket.last - 1)].layer, "\")");
    if (diagnose_) text = StrCat(diagnose_(), text);
  }
  communicator_.Fail(text);
  return text;
}

ExchangePlace GradientExchange::Place() const {
  const std::lock_guard lock(mutex_);
  return {iterations_, collectives_,
          last_begun_ < 0 ? std::string() : gradients_[static_cast<size_t>(last_begun_)].layer, running_};
}

void GradientExchange::Check() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(ErrorKind::kPeer, failure_);
}

std::vector<BucketTimes> GradientExchange::Times() const {
  const std::lock_guard lock(mutex_);
  std::vector<BucketTimes> times;
  for (const Bucket& bucket : buckets_) {
    const auto runs = static_cast<double>(std::max<int64_t>(bucket.done, 1));
    times.push_back({bucket.ready_s / runs, bucket.begin_s / runs, bucket.end_s / runs});
  }
  return times;
}

double GradientExchange::exposed_s() const {
  const std::lock_guard lock(mutex_);
  return iterations_ == 0 ? 0 : exposed_s_ / static_cast<double>(iterations_);
}

}  // namespace moka
