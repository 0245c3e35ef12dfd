// GradientExchange: sums that are some iterations late.
#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/exchange/gradient_exchange.h"
#include "core/error.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {

void GradientExchange::SetDelay(int delay, bool is_dynamic, const std::vector<int64_t>& controls, int64_t loss) {
  Require(buckets_.empty(), "delays are set before the first plan");
  std::vector<bool> is_control(tensors_.size(), false);
  for (const int64_t key : controls) is_control[static_cast<size_t>(index_of_key_.at(key))] = true;
  loss_ = index_of_key_.at(loss);
  has_dynamic_delay_ = is_dynamic;
  taken_.assign(tensors_.size(), 0);
  delays_ = std::make_unique<DelayLine>(tensors_, std::move(is_control), delay);
}

// A bucket of the plan with what waits of its gradients: the sums since `before_ - delay`.
void GradientExchange::BuildSlots(Bucket& bucket, int delay) {
  bucket.delay = delay;
  bucket.slack_s = std::numeric_limits<double>::infinity();
  for (int slot = 0; slot <= delays_->delay(); ++slot) {
    bucket.slots.emplace_back(delays_->Values(bucket.first, bucket.last, slot));
  }
}

// Gradient i becomes the sum of what has come of age.
void GradientExchange::EndDelayed(std::unique_lock<std::mutex>& lock, Bucket& bucket, int i) {
  const int64_t now = before_ + bucket.asked;  // one past this iteration
  const int64_t end = now - bucket.delay;
  const bool is_young = end <= 0;  // nothing of this process has come of age
  const int64_t needed = (is_young ? now : end) - before_;
  // Whether the loss of those iterations was finite is known with its bucket.
  const Bucket& of_loss = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(loss_)])];
  const auto is_there = [&] { return bucket.done >= needed && of_loss.done >= needed; };
  if (!is_there() && failure_.empty()) {
    const int64_t begin = NowMicros();
    changed_.wait(lock, [&] { return is_there() || !failure_.empty(); });
    const int64_t waited = NowMicros() - begin;
    const double waited_s = static_cast<double>(waited) * 1e-6;
    exposed_s_ += waited_s;
    bucket.exposed_s += waited_s;
    arrivals_.AddExposed(waited);
  } else if (bucket.done == needed) {
    bucket.slack_s = std::min(bucket.slack_s, static_cast<double>(NowMicros() - bucket.finished_micros) * 1e-6);
  } else {
    bucket.slack_s = std::min(bucket.slack_s, 0.0);  // a later one is there, too: it says nothing of this one
  }
  if (!failure_.empty()) return;
  int64_t& taken = taken_[static_cast<size_t>(i)];
  delays_->Take(i, taken, end, is_young ? now : end);
  taken = std::max(taken, end);
}

void GradientExchange::AdaptDelays() {
  if (!delays_ || !has_dynamic_delay_) return;
  Drain();
  constexpr double kPart = 0.02;  // of an iteration: what is waited for longer than this is worth an iteration's delay
  const int64_t now = NowMicros();
  std::vector<double> values = {static_cast<double>(now - last_micros_) * 1e-6};
  for (const Bucket& bucket : buckets_) {
    values.push_back(bucket.exposed_s);
    values.push_back(-bucket.slack_s);
  }
  communicator_.Max(values);
  const std::lock_guard lock(mutex_);
  const bool has_past = last_micros_ != 0;
  last_micros_ = now;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    const double exposed_s = values[1 + 2 * b];
    const double slack_s = -values[2 + 2 * b];
    bucket.exposed_s = 0;
    bucket.slack_s = std::numeric_limits<double>::infinity();
    if (!has_past) continue;
    const double iteration_s = values[0] / kAdaptEvery;
    if (exposed_s > kPart * values[0] && bucket.delay < delays_->delay()) {
      ++bucket.delay;
    } else if (bucket.delay > 0 && exposed_s == 0 && slack_s > iteration_s && std::isfinite(slack_s)) {
      --bucket.delay;
    }
  }
}

void GradientExchange::SaveWaiting(int64_t key, int age, std::span<float> values) const {
  const int i = index_of_key_.at(key);
  const Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])];
  const int64_t iteration = before_ + bucket.asked - age;
  std::ranges::fill(values, 0.0F);
  if (iteration >= taken_[static_cast<size_t>(i)]) delays_->Save(i, iteration, values);
}

void GradientExchange::LoadWaiting(int64_t key, int age, std::span<const float> values) {
  const int i = index_of_key_.at(key);
  Bucket& bucket = buckets_[static_cast<size_t>(bucket_of_[static_cast<size_t>(i)])];
  Require(bucket.asked == 0, "what waits is loaded before the first iteration");
  bucket.delay = delays_->delay();
  taken_[static_cast<size_t>(i)] = before_ - bucket.delay;
  delays_->Load(i, before_ - age, values);
}

std::string GradientExchange::DescribeDelays() const {
  if (!delays_) return {};
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts;
  for (const Bucket& bucket : buckets_) {
    if (!bucket.slots.empty()) texts.push_back(std::to_string(bucket.delay));
  }
  return StrCat("updates are ", Join(texts, ", "),
                texts.size() == 1 ? " iterations late" : " iterations late, by bucket",
                has_dynamic_delay_ ? StrCat(" (at most ", delays_->delay(), ")") : "");
}

}  // namespace moka
