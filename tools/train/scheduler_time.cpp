// Reads the end that Slurm puts into a job's environment and leaves a margin for the last checkpoint.
#include "tools/train/scheduler_time.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/log.h"
#include "core/text.h"
#include "tools/cli/progress.h"

namespace moka {

std::optional<double> SchedulerTimeLimit(std::optional<double> asked_s) {
  const char* value = std::getenv("SLURM_JOB_END_TIME");  // NOLINT(concurrency-mt-unsafe): nobody writes it
  if (value == nullptr) return asked_s;
  const std::string_view text = value;
  int64_t end_time = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), end_time);
  const bool is_time = code == std::errc() && end == text.data() + text.size();
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const double left_s = static_cast<double>(end_time) - now.count();
  if (!is_time || left_s <= 0) {
    LogWarning(StrCat("SLURM_JOB_END_TIME is \"", Printable(text), "\", ",
                      is_time ? "which is past" : "expected seconds since 1970", ": it limits nothing"));
    return asked_s;
  }
  constexpr double kMargin = 60;
  const double limit_s = left_s - std::min(kMargin, left_s / 10);
  if (asked_s && *asked_s <= limit_s) return asked_s;
  LogInfo(StrCat("the job ends in ", ProgressBar::TimeText(left_s), " (SLURM_JOB_END_TIME): this training stops ",
                 "after ", ProgressBar::TimeText(limit_s), " with a checkpoint, if it is not done before"));
  return limit_s;
}

}  // namespace moka
