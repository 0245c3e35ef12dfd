// The report of a run, or of a model with its weights: report.html for people and report.json with the same numbers, in
// the run's folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "graph/program.h"
#include "tools/report/report_content.h"

namespace moka {

struct RunReportOptions {
  std::filesystem::path runs = "runs";
  std::filesystem::path out = {};  // where both files go; empty: as ReportFolderOf says
  CompileOptions compile = {};
  bool is_precision_asked = false;  // compile.compute stands, whatever the solver says
  int64_t batches = 0;              // of the test; 0: the data once
  // Told how many of how many batches are done; false ends the report.
  std::function<bool(int64_t done, int64_t of)> on_batch = {};
};

// Where the report of a run, or of a model (its folder, its name or zoo:NAME), goes: options.out, else the run's
// folder, else NAME-report. Errors: kNoInput where there is neither.
std::filesystem::path ReportFolderOf(const std::string& run, const RunReportOptions& options);

// Tests the run's best weights, those that RUN@WHICH names, or those that a model carries, by its first test net, where
// that tells more than the run has written, and writes both files, each whole or not at all. Nothing else in the folder
// changes. Returns what it says; nothing if on_batch ended it. Errors: kNoInput without such a run or model; those of
// the test; kCantCreate, kIo.
std::optional<ReportContent> WriteRunReport(const std::string& run, const RunReportOptions& options);

// Where the report of a run lies.
std::filesystem::path ReportPageOf(const std::filesystem::path& run);

}  // namespace moka
