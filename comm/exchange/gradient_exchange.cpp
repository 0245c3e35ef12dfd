// The program's thread counts gradients down under a mutex and the communication thread runs whole buckets in the
// plan's order, so that all ranks enter the same collectives in one order whatever the order of their gradients.
// Iterations are counters (asked, done), never flags, and so a bucket may be a step behind.
#include "comm/exchange/gradient_exchange.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

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
  // The buckets that were under way may have ended well all the same; but the other ranks wait for those that this rank
  // will not begin, so they must be told.
  if (begun_ != 0 && failure_.empty()) communicator_.Fail(why);
}

void GradientExchange::Announce(int64_t key, std::string_view layer, const Tensor& values) {
  Require(!thread_.joinable(), "gradients are announced before the first plan");
  announced_.Add(key, layer, values);
}

void GradientExchange::AnnounceGroup(int64_t key, std::string_view layer, const Tensor& values, int ranks) {
  Require(!thread_.joinable(), "gradients are announced before the first plan");
  announced_.Add(key, layer, values, {GradientWay::kInGroup, ranks});
}

void GradientExchange::AnnounceParts(int64_t key, std::string_view layer, const PartsExchange& parts) {
  Require(!device_, "parts are exchanged on CPUs");
  Require(!thread_.joinable(), "gradients are announced before the first plan");
  announced_.AddParts(key, layer, parts);
}

void GradientExchange::SetCompression(std::unique_ptr<GradientCompression> compression) {
  Require(announced_.all().empty(), "compression is set before gradients are announced");
  announced_.SetCompression(std::move(compression));
}

void GradientExchange::SetRoute(int64_t key, GradientRoute route) {
  Require(buckets_.empty(), "ways are set before the first plan");
  announced_.SetRoute(key, route);
}

// All ranks must have announced the same gradients in the same order, or their buckets would sum different layers.
void GradientExchange::CheckAnnounced() {
  RequireSame(communicator_, announced_.Describe(), "gradient");
  if (device_) device_->Connect();
}

void GradientExchange::SetDelay(int delay, bool is_dynamic, const std::vector<int64_t>& controls, int64_t loss) {
  Require(buckets_.empty(), "delays are set before the first plan");
  DelayedSums::Setting setting{.delay = delay, .is_dynamic = is_dynamic, .loss = announced_.IndexOf(loss)};
  setting.is_control.assign(announced_.all().size(), false);
  for (const int64_t key : controls) setting.is_control[static_cast<size_t>(announced_.IndexOf(key))] = true;
  delays_ = std::make_unique<DelayedSums>(announced_.tensors(), std::move(setting));
}

void GradientExchange::SetPlan(const std::vector<int>& ends, const std::vector<Schedule>& schedules, Wire wire) {
  const int all = static_cast<int>(announced_.all().size());
  Require(!ends.empty() && ends.back() == all && schedules.size() == ends.size(),
          "a plan covers all gradients, with a schedule for each bucket");
  Drain();
  const std::lock_guard lock(mutex_);
  buckets_.clear();
  next_ = 0;
  bucket_of_.assign(announced_.all().size(), 0);
  std::vector<DelayedSums::Range> ranges;
  for (size_t b = 0; b < ends.size(); ++b) {
    for (int first = b == 0 ? 0 : ends[b - 1]; first < ends[b]; first = buckets_.back().last) {
      const int last = announced_.EndOfWay(first, ends[b]);
      std::fill(bucket_of_.begin() + first, bucket_of_.begin() + last, static_cast<int>(buckets_.size()));
      buckets_.push_back(MakeBucket(first, last, schedules[b], wire));
      const GradientWay way = announced_.route(first).way;
      ranges.push_back({first, last, way != GradientWay::kInGroup && way != GradientWay::kParts});
    }
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].name = *names_.insert(StrCat("bucket ", b, " of ", buckets_.size())).first;
  }
  if (delays_) delays_->SetBuckets(ranges);
  ForgetTimes();
  if (device_) {
    Require(buckets_.size() == ends.size() && !delays_, "a GPU's gradients all go to all ranks at once");
    return PlanOnDevice(schedules, wire);
  }
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

GradientExchange::Bucket GradientExchange::MakeBucket(int first, int last, const Schedule& planned, Wire wire) {
  Bucket bucket;
  bucket.first = first;
  bucket.last = last;
  bucket.missing = last - first;
  const Schedule schedule =
      announced_.Arrange(first, last, planned, communicator_.rank(), communicator_.size(), bucket.message);
  // All hold what owners send, and an error in what is no gradient does not average out: neither is rounded.
  const GradientWay way = announced_.route(first).way;
  const bool is_exact = way != GradientWay::kToAll && way != GradientWay::kToOwner;
  if (!device_) {
    bucket.runner = std::make_unique<Runner>(communicator_.transport(), schedule, is_exact ? Wire::kFloat32 : wire);
    bucket.runner->SetOnStall([this](int round, bool is_sending, std::vector<int> peers) {
      communicator_.SetWaiting(round, is_sending, std::move(peers));
    });
  }
  if (way == GradientWay::kToAll) ArrangeCompressed(bucket, planned);
  return bucket;
}

void GradientExchange::ForgetTimes() {
  for (ExchangedGradient& gradient : announced_.all()) gradient.ready_s = gradient.needed_s = 0;
  iterations_ = 0;
  exposed_s_ = 0;
  needs_ = 0;
  need_rounds_ = 0;
  const int summed = announced_.first_gathered();
  gathered_ = static_cast<int>(announced_.all().size()) - summed;
  // Late or early a rank is with gradients; what comes from owners comes after all have met.
  arrivals_.Start(static_cast<int>(std::ranges::count_if(buckets_, [&](const Bucket& b) { return b.first < summed; })));
}

void GradientExchange::PlanOnDevice(const std::vector<Schedule>& schedules, Wire wire) {
  std::vector<DeviceBucket> on_device;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    on_device.push_back({buckets_[b].first, buckets_[b].last, buckets_[b].message, schedules[b]});
  }
  device_->SetPlan(std::move(on_device), wire);
}

// A mean over iterations: what stands still for communication is as long as it is by the plan of now.
void GradientExchange::NoteNeed(int i) {
  const int64_t now = NowMicros();
  if (needs_ == 0) {
    needs_from_micros_ = now;
    needs_waited_micros_ = 0;
    ++need_rounds_;
  }
  double& mean = announced_.all()[static_cast<size_t>(i)].needed_s;
  const double seconds = static_cast<double>(now - needs_from_micros_ - needs_waited_micros_) * 1e-6;
  mean += (seconds - mean) / static_cast<double>(need_rounds_);
  if (++needs_ == gathered_) needs_ = 0;
}

// Called by the program's thread as a gradient is ready; the last of a bucket's gradients asks for its sum. Nothing is
// sent here: the communication thread does it in the plan's order.
void GradientExchange::Begin(int64_t key) noexcept {
  const int i = announced_.IndexOf(key);
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) {
    begun_micros_ = NowMicros();
    ++iterations_;
    arrivals_.BeginIteration();
  }
  if (++begun_ == static_cast<int>(announced_.all().size())) begun_ = 0;
  last_begun_ = i;
  const int64_t now_micros = NowMicros();
  const double now = static_cast<double>(now_micros - begun_micros_) * 1e-6;
  announced_.all()[static_cast<size_t>(i)].ready_s +=
      (now - announced_.all()[static_cast<size_t>(i)].ready_s) / static_cast<double>(iterations_);
  const int b = bucket_of_[static_cast<size_t>(i)];
  Bucket& bucket = buckets_[static_cast<size_t>(b)];
  if (--bucket.missing > 0) return;
  bucket.missing = bucket.last - bucket.first;
  if (b < arrivals_.buckets()) arrivals_.Arrive(b, now_micros);
  bucket.sums.ready_s += now;
  bucket.since_micros = begun_micros_;
  if (delays_) delays_->Put(b);
  ++bucket.asked;
  changed_.notify_all();
}

// Waits until the gradient's bucket has been summed as often as it was asked for. What is waited here is the time that
// communication costs the iteration (exposed_s).
void GradientExchange::End(int64_t key) noexcept {
  const int i = announced_.IndexOf(key);
  std::unique_lock lock(mutex_);
  const int b = bucket_of_[static_cast<size_t>(i)];
  const Bucket& bucket = buckets_[static_cast<size_t>(b)];
  if (delays_ && delays_->IsDelayed(b)) return EndDelayed(lock, b, i);
  if (announced_.route(i).way == GradientWay::kFromOwner) NoteNeed(i);
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

// Gradient i becomes the sum of what has come of age.
void GradientExchange::EndDelayed(std::unique_lock<std::mutex>& lock, int b, int i) {
  const Bucket& bucket = buckets_[static_cast<size_t>(b)];
  const int64_t needed = delays_->Needed(b);
  // Whether the loss of those iterations was finite is known with its bucket.
  const Bucket& of_loss = buckets_[static_cast<size_t>(delays_->loss_bucket())];
  const auto is_there = [&] { return bucket.done >= needed && of_loss.done >= needed; };
  if (!is_there() && failure_.empty()) {
    const int64_t begin = NowMicros();
    changed_.wait(lock, [&] { return is_there() || !failure_.empty(); });
    const int64_t waited = NowMicros() - begin;
    const double waited_s = static_cast<double>(waited) * 1e-6;
    exposed_s_ += waited_s;
    delays_->NoteWait(b, waited_s);
    arrivals_.AddExposed(waited);
  } else {
    // Where a later one is there, too, it says nothing of this one.
    const bool is_last = bucket.done == needed;
    delays_->NoteSlack(b, is_last ? static_cast<double>(NowMicros() - bucket.finished_micros) * 1e-6 : 0.0);
  }
  if (failure_.empty()) delays_->Take(b, i);
}

void GradientExchange::Begin(int64_t key, Stream& stream) { device_->Begin(announced_.IndexOf(key), stream); }

void GradientExchange::End(int64_t key, Stream& stream) { device_->End(announced_.IndexOf(key), stream); }

// On a GPU the whole step is in the stream, sums included; the host waits for it here and meanwhile looks at what has
// begun, so that a rank that hangs can say at which bucket.
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
    buckets_[b].sums.ready_s += times.ready_s;
    buckets_[b].sums.begin_s += times.begin_s;
    buckets_[b].sums.end_s += times.end_s;
    ++buckets_[b].done;
    exposed_s_ += times.waited_s;
  }
  for (size_t i = 0; i < announced_.all().size(); ++i) {
    const std::optional<double> ready_s = device_->ReadySeconds(static_cast<int>(i));
    if (!ready_s) return;
    double& mean = announced_.all()[i].ready_s;
    mean += (*ready_s - mean) / static_cast<double>(iterations_);
  }
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

// The sum itself runs without the lock, so that the program's thread can go on counting gradients down.
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
  bucket.sums.begin_s += begin;
  bucket.sums.end_s += since_begin();
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

// Splits the bucket into the gradients that cross compressed and the rest.
void GradientExchange::ArrangeCompressed(Bucket& bucket, const Schedule& planned) {
  std::vector<CompressedGradient*> compressed;
  for (int i = bucket.first; i < bucket.last; ++i) {
    CompressedGradient* one = announced_.compressed(static_cast<size_t>(i));
    const std::span<float> values = announced_.tensors()[static_cast<size_t>(i)].as<float>();
    if (one == nullptr) bucket.rest.Append(values.data(), static_cast<int64_t>(values.size()));
    if (one != nullptr) compressed.push_back(one);
  }
  if (compressed.empty()) return;
  bucket.compressed = std::make_unique<CompressedBucket>(communicator_.transport(), announced_.compression()->method(),
                                                         compressed, planned);
}

// Before compression begins (start_iter) a bucket with compressed gradients is summed as a whole, like any other.
void GradientExchange::Sum(Bucket& bucket) {
  const std::chrono::nanoseconds patience = communicator_.patience();
  if (bucket.compressed != nullptr && announced_.compression()->IsOn(iteration_)) {
    bucket.runner->Run(bucket.rest, patience, &is_cancelled_);
    return bucket.compressed->Run(iteration_ - announced_.compression()->options().start_iter, patience,
                                  &is_cancelled_);
  }
  const int b = static_cast<int>(&bucket - buckets_.data());
  const bool is_delayed = delays_ && delays_->IsDelayed(b);
  bucket.runner->Run(is_delayed ? delays_->MessageAt(b, bucket.done) : bucket.message, patience, &is_cancelled_);
  if (delays_) delays_->NoteLoss(b, bucket.done);
}

// The first cause is told: the words of a rank that has failed, else why this one was cancelled, else its own error
// with the bucket where it stood. All other ranks are told the same.
std::string GradientExchange::Explain(const std::string& what, const Bucket& bucket) {
  if (!communicator_.transport().failure().empty()) return what;  // another rank's words
  std::string text;
  if (is_cancelled_) {
    const std::lock_guard lock(mutex_);
    text = cancelled_for_;
  } else {
    text = StrCat(what, " (", bucket.name, ", from layer \"", announced_.all()[static_cast<size_t>(bucket.first)].layer,
                  "\" to \"", announced_.all()[static_cast<size_t>(bucket.last - 1)].layer, "\")");
    if (communicator_.watch().diagnose) text = StrCat(communicator_.watch().diagnose(), text);
  }
  communicator_.Fail(text);
  return text;
}

ExchangePlace GradientExchange::Place() const {
  const std::lock_guard lock(mutex_);
  return {iterations_, last_begun_ < 0 ? std::string() : announced_.all()[static_cast<size_t>(last_begun_)].layer,
          running_};
}

void GradientExchange::Check() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw Error(ErrorKind::kPeer, failure_);
}

ExchangeTimes GradientExchange::Times() const {
  const std::lock_guard lock(mutex_);
  ExchangeTimes times{.iterations = iterations_,
                      .exposed_s = iterations_ == 0 ? 0 : exposed_s_ / static_cast<double>(iterations_),
                      .all_exposed_s = exposed_s_};
  for (const Bucket& bucket : buckets_) {
    const auto runs = static_cast<double>(std::max<int64_t>(bucket.done, 1));
    times.buckets.push_back({bucket.sums.ready_s / runs, bucket.sums.begin_s / runs, bucket.sums.end_s / runs});
  }
  return times;
}

}  // namespace moka
