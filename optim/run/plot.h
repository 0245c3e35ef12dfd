// Line charts as SVG text: the pictures of a run's plots/ folder. Deterministic, no fonts or scripts outside the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moka {

struct PlotSeries {
  std::string name{};                               // in the legend; empty: not in it
  std::vector<std::pair<double, double>> points{};  // x ascending; a y that is not finite makes a gap
  // Half-life of an exponential mean, in points: > 0 draws the points pale and the mean over them.
  double smoothing = 0;
  bool markers = false;  // a dot at each point: for a few of them, such as tests
  int color = -1;        // the number of a colour, which several series may share; below 0: one of its own
  bool is_thin = false;  // for many of one colour
};

// A horizontal line across the chart, such as a goal.
struct PlotLevel {
  double y = 0;
  std::string name{};
};

struct PlotOptions {
  std::string title{};
  std::string x_label{};
  std::string y_label{};
  bool log_y = false;  // points that are not positive make gaps
  int width = 840;     // pixels
  int height = 480;
  std::optional<PlotLevel> level{};
  // The ends of an axis, in place of those of the points. Requires of range_y: no log_y.
  std::optional<std::pair<double, double>> range_x{};
  std::optional<std::pair<double, double>> range_y{};
};

// The colour of the series with this number, as CSS and SVG write it.
std::string_view PlotColor(size_t number);

std::string LineChart(const PlotOptions& options, const std::vector<PlotSeries>& series);
// x and one column a series, empty cells where a series has no point.
std::string PlotCsv(const PlotOptions& options, const std::vector<PlotSeries>& series);

// NAME.svg and NAME.csv in the folder, atomically.
void WritePlot(const std::filesystem::path& folder, const std::string& name, const PlotOptions& options,
               const std::vector<PlotSeries>& series);

// About `count` round numbers (1, 2 or 5 times a power of ten) that lie in [low, high]. Requires: low < high, finite.
std::vector<double> AxisTicks(double low, double high, int count);

}  // namespace moka
