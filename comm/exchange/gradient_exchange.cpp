#include "comm/exchange/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "comm/schedule/owned_parts.h"
#include "comm/transport/same_on_all.h"
#include "core/error.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {

GradientExchange::GradientExchange(Communicator& communicator, std::unique_ptr<DeviceExchange> device)
    : communicator_(communicator), device_(std::move(device)) {}

GradientExchange::~GradientExchange() {
  if (!device_) Cancel("it ended in the middle of an iteration");
  {
    const std::lock_guard lock(mutex_);  // not between the thread's look and its wait, which would miss it
    thread_.request_stop();
  }
  changed_.notify_all();
}

void GradientExchange::Cancel(const std::string& why) noexcept {
  if (device_) {
    if (communicator_.transport().failure().empty()) communicator_.Fail(why);  // before they see that NCCL has ended
    return device_->Abort();
  }
  std::unique_lock lock(mutex_);
  const auto is_idle = [&] {
    return !failure_.empty() || std::ranges::all_of(buckets_, [](const Bucket& b) { return b.done >= b.asked; });
  };
  const bool was_idle = is_idle() && begun_ == 0;
  if (was_idle) return;
  cancelled_for_ = why;
  is_cancelled_ = true;
  changed_.wait(lock, is_idle);
  // What was under way may have ended well all the same, and the others wait for what this rank will not begin.
  if (begun_ != 0 && failure_.empty()) communicator_.Fail(why);
}

void GradientExchange::Announce(int64_t key, std::string_view layer, const Tensor& values) {
  Require(!thread_.joinable(), "gradients are announced before the first plan");
  Require(values.type().dtype == DType::kFloat32, "gradients are exchanged in float32");
  const bool is_new = index_of_key_.emplace(key, static_cast<int>(gradients_.size())).second;
  Require(is_new, "a gradient is announced once");
  gradients_.push_back({std::string(layer), values.type().Bytes(), 0});
  tensors_.push_back(values);
  routes_.emplace_back();
  compressed_.push_back(compression_ ? compression_->Add(key, values) : nullptr);
}

void GradientExchange::AnnounceGroup(int64_t key, std::string_view layer, const Tensor& values, int ranks) {
  Announce(key, layer, values);
  routes_.back() = {Way::kInGroup, ranks};
}

void GradientExchange::AnnounceParts(int64_t key, std::string_view layer, const PartsExchange& parts) {
  Require(!device_, "parts are exchanged on CPUs");
  const auto size = static_cast<int64_t>(parts.to.size());
  Announce(key, layer, Tensor({DType::kFloat32, Shape{size}, {}}, parts.to.data()));
  // What an all-reduce of as many bytes would move: planners know what that takes.
  gradients_.back().bytes = parts.elements / 2 * static_cast<int64_t>(sizeof(float));
  routes_.back() = {Way::kParts, 0};
  parts_[static_cast<int>(gradients_.size()) - 1] = parts;
}

void GradientExchange::SetWay(int64_t key, Way way, int owner) {
  Require(buckets_.empty(), "ways are set before the first plan");
  routes_[static_cast<size_t>(index_of_key_.at(key))] = {way, owner};
}

int GradientExchange::EndOfWay(int first, int end) const {
  const Way way = routes_[static_cast<size_t>(first)].way;
  if (way == Way::kInGroup || way == Way::kParts) return first + 1;  // the program waits for it before it goes on
  while (first < end && routes_[static_cast<size_t>(first)].way == way) ++first;
  return first;
}

std::vector<int> GradientExchange::Cuts() const {
  std::vector<int> cuts;
  const int all = static_cast<int>(gradients_.size());
  for (int first = 0; first < all; first = cuts.back()) cuts.push_back(EndOfWay(first, all));
  return cuts;
}

Schedule GradientExchange::Arrange(Bucket& bucket, const Schedule& planned) {
  const Way way = routes_[static_cast<size_t>(bucket.first)].way;
  const auto append = [&](int i) {
    const std::span<float> values = tensors_[static_cast<size_t>(i)].as<float>();
    bucket.message.Append(values.data(), static_cast<int64_t>(values.size()));
  };
  if (way == Way::kParts) {
    const PartsExchange& parts = parts_.at(bucket.first);
    bucket.message.Append(parts.from.data(), parts.sent.back());
    bucket.message.Append(parts.to.data(), parts.received.back());
    return ExchangeParts(communicator_.rank(), communicator_.size(), parts.sent, parts.received);
  }
  if (way == Way::kToAll || way == Way::kExactToAll || way == Way::kInGroup) {
    for (int i = bucket.first; i < bucket.last; ++i) append(i);
    if (way != Way::kInGroup) return planned;
    return SumInGroup(communicator_.rank(), communicator_.size(), routes_[static_cast<size_t>(bucket.first)].owner);
  }
  std::vector<int64_t> bounds = {0};
  for (int owner = 0; owner < communicator_.size(); ++owner) {
    for (int i = bucket.first; i < bucket.last; ++i) {
      if (routes_[static_cast<size_t>(i)].owner == owner) append(i);
    }
    bounds.push_back(bucket.message.size());
  }
  return way == Way::kToOwner ? ReduceToOwners(communicator_.rank(), std::move(bounds))
                              : GatherFromOwners(communicator_.rank(), std::move(bounds));
}

void GradientExchange::CheckAnnounced() {
  std::string mine;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    const auto parts = parts_.find(static_cast<int>(i));
    mine += StrCat(gradients_[i].layer, " ",
                   parts == parts_.end() ? tensors_[i].type().ToString() : StrCat(parts->second.elements, " in parts"));
    if (compressed_[i] != nullptr) mine += StrCat(" by ", compression_->method().name);
    mine += "\n";
  }
  RequireSame(communicator_, mine, "gradient");
  if (device_) device_->Connect();
}

void GradientExchange::SetPlan(const std::vector<int>& ends, const std::vector<Schedule>& schedules, Wire wire) {
  Require(!ends.empty() && ends.back() == static_cast<int>(gradients_.size()) && schedules.size() == ends.size(),
          "a plan covers all gradients, with a schedule for each bucket");
  Drain();
  const std::lock_guard lock(mutex_);
  std::vector<int> delays;  // of each gradient
  for (size_t i = 0; delays_ && i < gradients_.size(); ++i) {
    const bool is_first = buckets_.empty();
    delays.push_back(is_first ? (has_dynamic_delay_ ? 0 : delays_->delay())
                              : buckets_[static_cast<size_t>(bucket_of_[i])].delay);
  }
  before_ += buckets_.empty() ? 0 : buckets_[0].asked;
  buckets_.clear();
  next_ = 0;
  bucket_of_.assign(gradients_.size(), 0);
  for (size_t b = 0; b < ends.size(); ++b) {
    int first = b == 0 ? 0 : ends[b - 1];
    while (first < ends[b]) {
      Bucket bucket;
      bucket.first = first;
      bucket.last = first = EndOfWay(first, ends[b]);
      bucket.missing = bucket.last - bucket.first;
      const Schedule schedule = Arrange(bucket, schedules[b]);
      // What owners send is what all hold, and what is no gradient does not come out in the wash: neither is rounded.
      const Way way = routes_[static_cast<size_t>(bucket.first)].way;
      const bool is_exact = way != Way::kToAll && way != Way::kToOwner;
      if (!device_) {
        bucket.runner = std::make_unique<Runner>(communicator_.transport(), schedule, is_exact ? Wire::kFloat32 : wire);
        bucket.runner->SetOnStall([this](int round, bool is_sending, std::vector<int> peers) {
          communicator_.SetWaiting(round, is_sending, std::move(peers));
        });
      }
      for (int i = bucket.first; i < bucket.last; ++i) {
        bucket_of_[static_cast<size_t>(i)] = static_cast<int>(buckets_.size());
      }
      if (way == Way::kToAll) ArrangeCompressed(bucket, schedules[b]);
      if (delays_ && way != Way::kInGroup && way != Way::kParts)
        BuildSlots(bucket, *std::max_element(delays.begin() + bucket.first, delays.begin() + bucket.last));
      buckets_.push_back(std::move(bucket));
    }
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].name = *names_.insert(StrCat("bucket ", b, " of ", buckets_.size())).first;
  }
  for (ExchangedGradient& gradient : gradients_) gradient.ready_s = gradient.needed_s = 0;
  iterations_ = 0;
  exposed_s_ = 0;
  needs_ = 0;
  need_rounds_ = 0;
  const int summed = first_gathered();
  gathered_ = static_cast<int>(gradients_.size()) - summed;
  // Late or early a rank is with gradients; what comes from owners comes after all have met.
  arrivals_.Start(static_cast<int>(std::ranges::count_if(buckets_, [&](const Bucket& b) { return b.first < summed; })));
  if (device_) {
    Require(buckets_.size() == ends.size() && !delays_, "a GPU's gradients all go to all ranks at once");
    std::vector<DeviceBucket> on_device;
    for (size_t b = 0; b < buckets_.size(); ++b) {
      on_device.push_back({buckets_[b].first, buckets_[b].last, buckets_[b].message, schedules[b]});
    }
    return device_->SetPlan(std::move(on_device), wire);
  }
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

int GradientExchange::first_gathered() const {
  const auto it = std::ranges::find(routes_, Way::kFromOwner, &Route::way);
  return static_cast<int>(it - routes_.begin());
}

// A mean over iterations: what stands still for communication is as long as it is by the plan of now.
void GradientExchange::NoteNeed(int i) {
  const int64_t now = NowMicros();
  if (needs_ == 0) {
    needs_from_micros_ = now;
    needs_waited_micros_ = 0;
    ++need_rounds_;
  }
  double& mean = gradients_[static_cast<size_t>(i)].needed_s;
  const double seconds = static_cast<double>(now - needs_from_micros_ - needs_waited_micros_) * 1e-6;
  mean += (seconds - mean) / static_cast<double>(need_rounds_);
  if (++needs_ == gathered_) needs_ = 0;
}

void GradientExchange::Begin(int64_t key) noexcept {
  const int i = index_of_key_.find(key)->second;
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) {
    begun_micros_ = NowMicros();
    ++iterations_;
    arrivals_.BeginIteration();
  }
  if (++begun_ == static_cast<int>(gradients_.size())) begun_ = 0;
  last_begun_ = i;
  const int64_t now_micros = NowMicros();
  const double now = static_cast<double>(now_micros - begun_micros_) * 1e-6;
  gradients_[static_cast<size_t>(i)].ready_s +=
      (now - gradients_[static_cast<size_t>(i)].ready_s) / static_cast<double>(iterations_);
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])];
  if (--bucket.missing > 0) return;
  bucket.missing = bucket.last - bucket.first;
  if (const int b = bucket_of_[static_cast<size_t>(i)]; b < arrivals_.buckets()) arrivals_.Arrive(b, now_micros);
  bucket.ready_s += now;
  bucket.since_micros = begun_micros_;
  for (int k = bucket.first; !bucket.slots.empty() && k < bucket.last; ++k) delays_->Put(k, before_ + bucket.asked);
  ++bucket.asked;
  changed_.notify_all();
}

void GradientExchange::End(int64_t key) noexcept {
  const int i = index_of_key_.find(key)->second;
  std::unique_lock lock(mutex_);
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])];
  if (!bucket.slots.empty()) return EndDelayed(lock, bucket, i);
  if (routes_[static_cast<size_t>(i)].way == Way::kFromOwner) NoteNeed(i);
  if (bucket.done == bucket.asked || !failure_.empty()) return;
  const int64_t begin = NowMicros();
  changed_.wait(lock, [&] { return bucket.done == bucket.asked || !failure_.empty(); });
  const int64_t end = NowMicros();
  exposed_s_ += static_cast<double>(end - begin) * 1e-6;
  needs_waited_micros_ += end - begin;
  arrivals_.AddExposed(end - begin);
  lock.unlock();
  TraceSpan(bucket.name, "wait", begin, end);
}

void GradientExchange::Begin(int64_t key, Stream& stream) { device_->Begin(index_of_key_.find(key)->second, stream); }

void GradientExchange::End(int64_t key, Stream& stream) { device_->End(index_of_key_.find(key)->second, stream); }

void GradientExchange::Await(Stream& stream) {
  {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) {
      lock.unlock();
      return device_->Abort(stream);
    }
    ++iterations_;
  }
  int ended = -1;
  int begun = 0;
  int counted = 0;
  const auto has_moved = [&] {
    begun = device_->BegunBuckets();
    const int now = device_->EndedBuckets();
    for (; counted < begun; ++counted) communicator_.BeginCollective();
    const std::lock_guard lock(mutex_);
    running_ = begun > now ? begun - 1 : -1;
    if (begun > 0) last_begun_ = buckets_[static_cast<size_t>(begun - 1)].last - 1;
    return std::exchange(ended, now + begun) != now + begun;
  };
  StreamWait wait = device_->Wait(stream, communicator_.patience(), std::ref(has_moved));
  if (wait.is_done && wait.failure.empty()) {
    for (; counted < static_cast<int>(buckets_.size()); ++counted) communicator_.BeginCollective();
    const std::lock_guard lock(mutex_);
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
  NameTraceLane("communication");
  for (;;) {
    Bucket* bucket = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        if (stop.stop_requested()) return true;
        bucket = &buckets_[next_];
        return bucket->done < bucket->asked && failure_.empty();
      });
      if (stop.stop_requested()) return;
    }
    RunBucket(*bucket);  // what is asked for stays: a plan follows only when nothing is
  }
}

void GradientExchange::RunBucket(Bucket& bucket) {
  const int64_t begin_micros = TraceIsOn() ? NowMicros() : -1;
  double begin = 0;
  // The next iteration may have begun when what comes from owners is there.
  const auto since_begin = [&] { return static_cast<double>(NowMicros() - bucket.since_micros) * 1e-6; };
  {
    const std::lock_guard lock(mutex_);
    begin = since_begin();
    communicator_.BeginCollective();
    running_ = static_cast<int>(&bucket - buckets_.data());
  }
  std::string failure;
  try {
    Sum(bucket);
  } catch (const std::exception& error) {  // a thread has nobody to throw to
    failure = Explain(error.what(), bucket);
  }
  if (begin_micros >= 0) TraceSpan(bucket.name, "collective", begin_micros, NowMicros());
  const std::lock_guard lock(mutex_);
  bucket.begin_s += begin;
  bucket.end_s += since_begin();
  ++bucket.done;
  bucket.finished_micros = NowMicros();
  next_ = (next_ + 1) % buckets_.size();  // under the same lock as `done`: a new plan may follow at once
  running_ = -1;
  failure_ = std::move(failure);
  changed_.notify_all();
}

void GradientExchange::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return !failure_.empty() || std::ranges::all_of(buckets_, [](const Bucket& b) { return b.done >= b.asked; });
  });
  if (!failure_.empty()) throw Error(ErrorKind::kPeer, failure_);
}

// What crosses compressed, and the rest of the bucket.
void GradientExchange::ArrangeCompressed(Bucket& bucket, const Schedule& planned) {
  std::vector<CompressedGradient*> compressed;
  for (int i = bucket.first; i < bucket.last; ++i) {
    CompressedGradient* one = compressed_[static_cast<size_t>(i)];
    const std::span<float> values = tensors_[static_cast<size_t>(i)].as<float>();
    if (one == nullptr) bucket.rest.Append(values.data(), static_cast<int64_t>(values.size()));
    if (one != nullptr) compressed.push_back(one);
  }
  if (compressed.empty()) return;
  bucket.compressed =
      std::make_unique<CompressedBucket>(communicator_.transport(), compression_->method(), compressed, planned);
}

void GradientExchange::Sum(Bucket& bucket) {
  const std::chrono::nanoseconds patience = communicator_.patience();
  if (bucket.compressed != nullptr && compression_->IsOn(iteration_)) {
    bucket.runner->Run(bucket.rest, patience, &is_cancelled_);
    return bucket.compressed->Run(iteration_ - compression_->options().start_iter, patience, &is_cancelled_);
  }
  const int64_t iteration = before_ + bucket.done;
  const Message& message =
      bucket.slots.empty() ? bucket.message : bucket.slots[static_cast<size_t>(iteration) % bucket.slots.size()];
  bucket.runner->Run(message, patience, &is_cancelled_);
  if (delays_ && bucket.first <= loss_ && loss_ < bucket.last) {
    delays_->SetFinite(iteration, std::isfinite(delays_->Values(loss_, loss_ + 1, iteration)[0]));
  }
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
    if (communicator_.watch().diagnose) text = StrCat(communicator_.watch().diagnose(), text);
  }
  communicator_.Fail(text);
  return text;
}

ExchangePlace GradientExchange::Place() const {
  const std::lock_guard lock(mutex_);
  return {iterations_, last_begun_ < 0 ? std::string() : gradients_[static_cast<size_t>(last_begun_)].layer, running_};
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

double GradientExchange::all_exposed_s() const {
  const std::lock_guard lock(mutex_);
  return exposed_s_;
}

double GradientExchange::exposed_s() const {
  const std::lock_guard lock(mutex_);
  return iterations_ == 0 ? 0 : exposed_s_ / static_cast<double>(iterations_);
}

}  // namespace moka
