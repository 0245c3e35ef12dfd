// Epochs are counted from 1, as the reference implementations do: the test behind epoch n has epoch_num n.
#include "optim/run/mlperf_run.h"

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "core/text.h"
#include "optim/run/run_clock.h"

namespace moka {
namespace {

constexpr const char* kIteration = "iteration";

// A whole number where it is one, else with four digits behind the point.
MlperfValue EpochValue(double epochs) {
  constexpr double kDigits = 1e4;
  const double rounded = std::round(epochs * kDigits) / kDigits;
  if (rounded == std::floor(rounded)) return static_cast<int64_t>(rounded);
  return rounded;
}

}  // namespace

double MlperfRun::Epochs(int64_t iterations) const {
  const auto done = static_cast<double>(iterations);
  if (is_by_epoch()) return done / static_cast<double>(course_.facts.steps_per_epoch());
  return done * static_cast<double>(course_.facts.batch) / static_cast<double>(course_.facts.train_samples);
}

std::vector<MlperfField> MlperfRun::Interval(int64_t begin) const {
  if (is_by_epoch()) return {{"epoch_num", begin / interval() + 1}};
  const int64_t end = std::min(begin - begin % interval() + interval(), course_.max_iter);
  return {{"first_epoch_num", EpochValue(Epochs(begin) + 1)}, {"epoch_count", EpochValue(Epochs(end) - Epochs(begin))}};
}

void MlperfRun::Begin() const {
  if (log_) log_->Start("run_start", {{kIteration, int64_t{0}}});
}

void MlperfRun::GoOn(int64_t done, double clock_s) const {
  if (log_) log_->Event("moka_resume", done, {{kIteration, done}, {"clock_s", ToMillis(clock_s)}});
}

void MlperfRun::Train(int64_t done) {
  if (!log_ || open_since_) return;
  open_since_ = done;
  std::vector<MlperfField> fields = Interval(done);
  fields.push_back({kIteration, done});
  log_->Start(is_by_epoch() ? "epoch_start" : "block_start", fields);
}

void MlperfRun::Trained(int64_t done) {
  if (log_ && done % interval() == 0) CloseInterval(done);
}

void MlperfRun::CloseInterval(int64_t done) {
  if (!open_since_) return;
  std::vector<MlperfField> fields = Interval(*open_since_);
  fields.push_back({"samples_count", done * course_.facts.batch});
  fields.push_back({kIteration, done});
  log_->End(is_by_epoch() ? "epoch_stop" : "block_stop", fields);
  open_since_.reset();
}

void MlperfRun::StartTest(int64_t done) {
  if (!log_) return;
  CloseInterval(done);
  log_->Start("eval_start", {{"epoch_num", EpochValue(Epochs(done))}, {kIteration, done}});
}

void MlperfRun::Test(int64_t done, double accuracy) const {
  if (!log_) return;
  if (!std::isfinite(accuracy)) {
    LogWarning(StrCat("the test at iteration ", done, " gave ", accuracy, ": mllog.txt has no eval_accuracy of it"));
    return;
  }
  log_->Event("eval_accuracy", accuracy, {{"epoch_num", EpochValue(Epochs(done))}, {kIteration, done}});
}

void MlperfRun::EndTest(int64_t done) const {
  if (log_) log_->End("eval_stop", {{"epoch_num", EpochValue(Epochs(done))}, {kIteration, done}});
}

void MlperfRun::End(int64_t done, bool is_success) {
  if (!log_) return;
  if (is_success) CloseInterval(done);  // an aborted run leaves open what it did not bring to an end
  log_->End("run_stop", {{"status", std::string(is_success ? "success" : "aborted")}, {kIteration, done}});
  log_.reset();
}

}  // namespace moka
