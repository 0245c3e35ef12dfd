// The report that ends a training (tools/report/run_report.h), once all that trained is gone.
#pragma once

#include <cstdint>
#include <filesystem>

#include "graph/program.h"
#include "proto/moka.pb.h"
#include "tools/cli/progress.h"

namespace moka {

// The run that a training has left.
struct TrainedRun {
  std::filesystem::path path = {};  // empty: none, or another rank's to report
  CompileOptions compile = {};
  int64_t batches = 0;       // of a test while it trained
  bool is_reported = false;  // wanted, and there are tests to tell of
  ProgressMode progress = ProgressMode::kOff;

  void Set(const SolverParameter& solver, bool is_wanted, ProgressMode mode);
};

// Tests the run's best weights over as many batches as its tests had and writes its report, if the training has come to
// its end. That is all that changes in the run's folder. What fails is a warning: the training is done. A signal ends
// the report.
void ReportTraining(const TrainedRun& trained, int exit_code);

}  // namespace moka
