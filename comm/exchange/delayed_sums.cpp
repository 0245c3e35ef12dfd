// Buckets with a delay each, over one line of sums by iteration; the delays follow what all ranks have waited.
#include "comm/exchange/delayed_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

constexpr double kNoSlack = std::numeric_limits<double>::infinity();

}  // namespace

DelayedSums::DelayedSums(const std::vector<Tensor>& gradients, Setting setting)
    : setting_(std::move(setting)),
      line_(gradients, setting_.is_control, setting_.delay),
      bucket_of_(gradients.size(), 0),
      taken_(gradients.size(), 0) {}

void DelayedSums::SetBuckets(const std::vector<Range>& ranges) {
  std::vector<int> delays;  // of each gradient
  for (size_t i = 0; i < taken_.size(); ++i) {
    const int at_first = setting_.is_dynamic ? 0 : line_.delay();
    delays.push_back(buckets_.empty() ? at_first : BucketOf(static_cast<int>(i)).delay);
  }
  before_ += buckets_.empty() ? 0 : buckets_[0].asked;
  buckets_.clear();
  for (const Range& range : ranges) {
    Bucket& bucket = buckets_.emplace_back(Bucket{.range = range});
    std::fill(bucket_of_.begin() + range.first, bucket_of_.begin() + range.last, static_cast<int>(buckets_.size()) - 1);
    if (!range.is_delayed) continue;
    bucket.delay = *std::max_element(delays.begin() + range.first, delays.begin() + range.last);
    bucket.slack_s = kNoSlack;
    for (int slot = 0; slot <= line_.delay(); ++slot) {
      bucket.slots.emplace_back(line_.Values(range.first, range.last, slot));
    }
  }
}

void DelayedSums::Put(int bucket) {
  Bucket& one = buckets_[static_cast<size_t>(bucket)];
  for (int i = one.range.first; !one.slots.empty() && i < one.range.last; ++i) line_.Put(i, before_ + one.asked);
  ++one.asked;
}

const Message& DelayedSums::MessageAt(int bucket, int64_t done) const {
  const std::vector<Message>& slots = buckets_[static_cast<size_t>(bucket)].slots;
  return slots[static_cast<size_t>(before_ + done) % slots.size()];
}

void DelayedSums::NoteLoss(int bucket, int64_t done) {
  if (bucket != loss_bucket()) return;
  const int64_t iteration = before_ + done;
  line_.SetFinite(iteration, std::isfinite(line_.Values(setting_.loss, setting_.loss + 1, iteration)[0]));
}

int64_t DelayedSums::Needed(int bucket) const {
  const Bucket& one = buckets_[static_cast<size_t>(bucket)];
  const int64_t end = End(one);
  return end <= 0 ? one.asked : end - before_;  // nothing of this process has come of age: that of now
}

void DelayedSums::NoteSlack(int bucket, double seconds) {
  double& slack_s = buckets_[static_cast<size_t>(bucket)].slack_s;
  slack_s = std::min(slack_s, seconds);
}

void DelayedSums::Take(int bucket, int i) {
  const int64_t end = End(buckets_[static_cast<size_t>(bucket)]);
  int64_t& taken = taken_[static_cast<size_t>(i)];
  line_.Take(i, taken, end, before_ + Needed(bucket));
  taken = std::max(taken, end);
}

void DelayedSums::Adapt(Communicator& world) {
  constexpr double kPart = 0.02;  // of an iteration: what is waited for longer than this is worth an iteration's delay
  const int64_t now = NowMicros();
  std::vector<double> values = {static_cast<double>(now - last_micros_) * 1e-6};
  for (const Bucket& bucket : buckets_) {
    values.push_back(bucket.exposed_s);
    values.push_back(-bucket.slack_s);
  }
  world.Max(values);
  const bool has_past = last_micros_ != 0;
  last_micros_ = now;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    const double exposed_s = values[1 + 2 * b];
    const double slack_s = -values[2 + 2 * b];
    bucket.exposed_s = 0;
    bucket.slack_s = kNoSlack;
    if (!has_past) continue;
    const double iteration_s = values[0] / kAdaptEvery;
    if (exposed_s > kPart * values[0] && bucket.delay < line_.delay()) {
      ++bucket.delay;
    } else if (bucket.delay > 0 && exposed_s == 0 && slack_s > iteration_s && std::isfinite(slack_s)) {
      --bucket.delay;
    }
  }
}

void DelayedSums::Save(int i, int age, std::span<float> values) const {
  const int64_t iteration = before_ + BucketOf(i).asked - age;
  std::ranges::fill(values, 0.0F);
  if (iteration >= taken_[static_cast<size_t>(i)]) line_.Save(i, iteration, values);
}

void DelayedSums::Load(int i, int age, std::span<const float> values) {
  Bucket& bucket = BucketOf(i);
  Require(bucket.asked == 0, "what waits is loaded before the first iteration");
  bucket.delay = line_.delay();
  taken_[static_cast<size_t>(i)] = before_ - bucket.delay;
  line_.Load(i, before_ - age, values);
}

std::string DelayedSums::Describe() const {
  std::vector<std::string> texts;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.slots.empty()) texts.push_back(std::to_string(bucket.delay));
  }
  return StrCat("updates are ", Join(texts, ", "),
                texts.size() == 1 ? " iterations late" : " iterations late, by bucket",
                setting_.is_dynamic ? StrCat(" (at most ", line_.delay(), ")") : "");
}

}  // namespace moka
