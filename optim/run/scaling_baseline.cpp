// Reads the last whole line of the other run's scaling.jsonl.
#include "optim/run/scaling_baseline.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/json_whole.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kBaselineLimitBytes = int64_t{1} << 30;

}  // namespace

ScalingBaseline ReadScalingBaseline(const std::filesystem::path& run) {
  const std::filesystem::path file = run / kScalingFile;
  std::error_code code;
  if (!std::filesystem::exists(file, code)) {
    throw Error(ErrorKind::kNoInput, {},
                StrCat(Printable(run.string()), " is no baseline: it has no ", std::string(kScalingFile)),
                "give the folder of a run that has finished an epoch or its training");
  }
  const std::vector<std::string> lines = Split(ReadLinesFile(file, {.bytes = kBaselineLimitBytes}), '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    CheckJsonBounds(*line, file.string());
    const nlohmann::json json = nlohmann::json::parse(*line, nullptr, false);
    if (!json.is_object()) continue;  // empty, or cut by a kill
    try {
      ScalingBaseline baseline{.name = run.filename().string(),
                               .ranks = JsonWhole<int64_t>(json.at("ranks")),
                               .rank_batch = JsonWhole<int64_t>(json.at("rank_batch")),
                               .step_s = json.at("mean").at("step_ms").get<double>() * 1e-3};
      if (baseline.ranks > 0 && baseline.rank_batch > 0 && baseline.step_s > 0) return baseline;
    } catch (const nlohmann::json::exception&) {  // said below
    } catch (const Error&) {
    }
    break;
  }
  throw Error(ErrorKind::kBadData, StrCat(Printable(file.string()), ": no report of a training's scaling"));
}

}  // namespace moka
