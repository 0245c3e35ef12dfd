// The baseline for the efficiency of a training by several ranks: another run, of one rank or of fewer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace moka {

// In a run's folder: a line of JSON a report (optim/run/scaling_report.h).
inline constexpr std::string_view kScalingFile = "scaling.jsonl";

struct ScalingBaseline {
  std::string name;
  int64_t ranks = 1;
  int64_t rank_batch = 0;  // samples that a rank computes in an iteration
  double step_s = 0;
};
// Returns the last report of a run. Errors: kNoInput without a scaling.jsonl, kBadData if it is damaged.
ScalingBaseline ReadScalingBaseline(const std::filesystem::path& run);

}  // namespace moka
