// The run is read from its folder, as `moka report` reads it: no part of the training is used again.
#include "tools/report/training_report.h"

#include <exception>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/signals.h"
#include "tools/launch/command.h"
#include "tools/report/run_report.h"

namespace moka {

void TrainedRun::Set(const SolverParameter& solver, bool is_wanted, ProgressMode mode) {
  batches = solver.test_iter_size() > 0 ? solver.test_iter(0) : 0;
  is_reported = is_wanted && batches > 0;
  progress = mode;
}

void ReportTraining(const TrainedRun& trained, int exit_code) {
  const bool has_ended = exit_code == 0 || exit_code == static_cast<int>(ErrorKind::kTargetMissed);
  if (!has_ended || !trained.is_reported || trained.path.empty()) return;
  const std::string again = StrCat("moka ", ShellLine({"report", trained.path.string()}));
  try {
    const SignalRequests signals(SignalEffect::kStop, SignalEffect::kNone);
    RunReportOptions options{.compile = trained.compile, .batches = trained.batches};
    std::optional<ProgressBar> bar;
    options.on_batch = [&](int64_t done, int64_t of) {
      if (!bar) bar.emplace(trained.progress, "report", of);
      bar->Update(done, "");
      return !SignalRequests::WantsStop();
    };
    const bool is_written = WriteRunReport(trained.path.string(), options).has_value();
    bar.reset();
    LogInfo(is_written ? StrCat("  report  ", ReportPageOf(trained.path).string())
                       : StrCat("the report was left out; to make it: ", again));
  } catch (const std::exception& error) {
    LogWarning(StrCat("the run has no report: ", error.what(), "; to make it: ", again));
  }
}

}  // namespace moka
