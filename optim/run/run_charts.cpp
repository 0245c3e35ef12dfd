// Sorts the metrics of a run by what their names say: losses, parts of one, the learning rate.
#include "optim/run/run_charts.h"

#include <map>

#include "core/text.h"
#include "optim/run/run_folder.h"

namespace moka {
namespace {

// A metric that is a part of one: drawn in accuracy.svg.
bool IsPart(const std::string& name) {
  return name.find("acc") != std::string::npos || name.find("top") != std::string::npos ||
         name.find("detection") != std::string::npos;
}

// The metrics by split and name.
std::map<std::string, PlotSeries> SeriesOfRun(const std::filesystem::path& run) {
  std::map<std::string, PlotSeries> series;
  for (const MetricLine& line : ReadMetrics(run)) {
    for (const auto& [name, value] : line.metrics) {
      PlotSeries& s = series[StrCat(line.split, " ", name)];
      s.markers = line.split != "train";
      s.points.emplace_back(static_cast<double>(line.iteration), value);
    }
  }
  return series;
}

}  // namespace

std::vector<RunChart> ChartsOfRun(const std::filesystem::path& run) {
  std::error_code code;
  if (!std::filesystem::exists(run / "metrics.jsonl", code)) return {};
  constexpr double kHalfLives = 40;  // of the smoothed curve, over its length: short runs are drawn as they are
  std::vector<PlotSeries> losses;
  std::vector<PlotSeries> parts;
  std::vector<PlotSeries> rates;
  for (auto& [key, s] : SeriesOfRun(run)) {
    s.name = key;
    const double half_life = static_cast<double>(s.points.size()) / kHalfLives;
    if (key == "train loss_scale") continue;
    if (key == "train loss" && half_life >= 1) s.smoothing = half_life;
    if (key == "train lr") {
      s.name = "learning rate";
      rates.push_back(s);
    } else if (key.find("loss") != std::string::npos) {
      losses.push_back(s);
    } else if (IsPart(key)) {
      parts.push_back(s);
    }
  }
  std::vector<RunChart> charts;
  const auto add = [&](const std::string& name, const std::string& label, std::vector<PlotSeries>& series) {
    if (series.empty()) return;
    const std::string title = StrCat(run.filename().string(), ": ", label);
    charts.push_back({name, {.title = title, .x_label = "iteration", .y_label = label}, std::move(series)});
  };
  add("loss", "loss", losses);
  add("accuracy", "accuracy", parts);
  add("lr", "learning rate", rates);
  return charts;
}

}  // namespace moka
