// Lines of MLPerf's log as mlcommons' mllog writes them (mlcommons/logging, mlperf_logging/mllog):
//
//   :::MLLOG {"namespace": "", "time_ms": 1732809600000, "event_type": "INTERVAL_START", "key": "run_start",
//             "value": null, "metadata": {"file": "optim/run/mlperf_run.cpp", "lineno": 40}}
//
// each on one line. Where the lines go and what time it is are the caller's: a run's file, or a test's list.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/log.h"

namespace moka {

// Null, or a value of JSON.
using MlperfValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

struct MlperfField {
  std::string name;
  MlperfValue value;
};

class MlperfLog {
 public:
  using Sink = std::function<void(std::string_view line)>;
  // Milliseconds since 1970.
  using Clock = std::function<int64_t()>;

  MlperfLog(Sink sink, Clock now) : sink_(std::move(sink)), now_(std::move(now)) {}

  // A moment, and the two ends of an interval. `metadata` comes behind the place that logs. Errors: the sink's.
  void Event(std::string_view key, const MlperfValue& value, const std::vector<MlperfField>& metadata = {},
             CodePlace where = CodePlace::Here()) const;
  void Start(std::string_view key, const std::vector<MlperfField>& metadata = {},
             CodePlace where = CodePlace::Here()) const;
  void End(std::string_view key, const std::vector<MlperfField>& metadata = {},
           CodePlace where = CodePlace::Here()) const;
  // The same log of another clock: for what happened before it was opened.
  MlperfLog At(int64_t time_ms) const;

 private:
  void Write(std::string_view type, std::string_view key, const MlperfValue& value,
             const std::vector<MlperfField>& metadata, CodePlace where) const;

  Sink sink_;
  Clock now_;
};

// The log of a run that goes on from a checkpoint: what it keeps, and the iteration at which the block or epoch began
// that is still open at its end.
struct ResumedMlperfLog {
  std::string text;
  std::optional<int64_t> open_since;
  bool has_started = false;  // a run_start is in it
};
// Lines behind the checkpoint of `iteration` go: those of later iterations, the run_stop of a session that ended, and
// without `keeps_tests` the test at that iteration, which is made again. A last line that was cut goes as well.
ResumedMlperfLog ResumeMlperfLog(std::string_view text, int64_t iteration, bool keeps_tests);

}  // namespace moka
