// The curves of a run over its iterations: what plots/ draws and what report.html shows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "optim/run/plot.h"

namespace moka {

struct RunChart {
  std::string name;  // of its file: "loss", "accuracy", "lr"
  PlotOptions options{};
  std::vector<PlotSeries> series{};
};

// The charts that metrics.jsonl has points for; none without that file. Errors: those of ReadMetrics.
std::vector<RunChart> ChartsOfRun(const std::filesystem::path& run);

}  // namespace moka
