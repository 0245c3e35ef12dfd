// The three forms have the same facts of a run, in the same order.
#include "tools/measure/accuracy_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/text.h"
#include "core/text_table.h"
#include "optim/run/plot.h"

namespace moka {
namespace {

constexpr const char* kUnknown = "–";

// "12.3 s", and from a quarter of an hour on "1:02:03".
std::string TimeText(double seconds) {
  constexpr double kLong = 900;
  if (seconds < kLong) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string RateText(double rate) { return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0); }
std::string ShareText(double share) { return fmt::format("{:.1f} %", share * 100); }
std::string JoulesText(double joules) { return fmt::format("{:.0f}", joules); }
std::string RatioText(double ratio) { return fmt::format("{:.2f}", ratio); }
std::string EpochsText(double epochs) { return fmt::format("{:.2f}", epochs); }

template <class Text>
std::string Known(const std::optional<double>& value, Text&& text) {
  return value ? text(*value) : std::string(kUnknown);
}

template <class Text>
std::string SpreadText(const std::optional<Spread>& spread, Text&& text) {
  if (!spread) return kUnknown;
  return StrCat(text(spread->median), " [", text(spread->min), "..", text(spread->max), "]");
}

std::vector<std::string> RunRow(const AccuracyRun& run) {
  const AccuracyPoint* last = LastPoint(run);
  return {run.setting,
          std::to_string(run.seed),
          std::string(NameOf(run.end)),
          TimeText(run.clock_s),
          last == nullptr ? kUnknown : EpochsText(last->epoch),
          last == nullptr ? kUnknown : std::to_string(last->iteration),
          last == nullptr ? kUnknown : fmt::format("{:.4f}", last->value),
          Known(run.images_per_s, RateText),
          Known(run.training_images_per_s, RateText),
          Known(run.input_wait, ShareText),
          Known(run.init_s, TimeText),
          run.peak_bytes > 0 ? BytesText(run.peak_bytes) : kUnknown,
          Known(run.joules, JoulesText)};
}

std::vector<std::string> SummaryRow(const AccuracySummary& summary) {
  return {summary.setting,
          StrCat(summary.reached, " of ", summary.runs),
          SpreadText(summary.clock_s, TimeText),
          SpreadText(summary.epochs, EpochsText),
          SpreadText(summary.images_per_s, RateText),
          SpreadText(summary.joules, JoulesText),
          SpreadText(summary.ratio, RatioText)};
}

std::string CsvName(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; }, ' ');
  return name;
}

std::string CsvCell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ToText(*value) : std::string();
}

// The run of a setting whose clock is the middle one of those that reached the target; null where none did.
const AccuracyRun* MiddleRun(const AccuracyBench& bench, const std::string& setting) {
  std::vector<const AccuracyRun*> reached;
  for (const AccuracyRun& run : bench.runs) {
    if (run.setting == setting && run.end == AccuracyEnd::kReached) reached.push_back(&run);
  }
  if (reached.empty()) return nullptr;
  std::ranges::stable_sort(reached, {}, &AccuracyRun::clock_s);
  return reached[(reached.size() - 1) / 2];
}

}  // namespace

std::string RunSentence(const AccuracyRun& run, const AccuracyTarget& target) {
  const AccuracyPoint* last = LastPoint(run);
  const std::string value = last == nullptr ? "" : fmt::format(" {} {:.4f}", target.metric, last->value);
  const std::string where = last == nullptr ? "" : fmt::format(", {:.2f} epochs", last->epoch);
  return StrCat(NameOf(run.end), value, " after ", TimeText(run.clock_s), where);
}

std::string AccuracyText(const AccuracyBench& bench) {
  std::vector<std::vector<std::string>> rows = {{"setting", "seed", "outcome", "clock", "epochs", "iterations",
                                                 bench.target.metric, "images/s", "training alone", "input wait",
                                                 "start-up", "peak memory", "joules"}};
  bool is_cut = false;
  for (const AccuracyRun& run : bench.runs) {
    if (!run.has_ended()) continue;
    rows.push_back(RunRow(run));
    if (run.sessions > 1) rows.back()[1] += "*";
    is_cut = is_cut || run.sessions > 1;
  }
  std::string text = StrCat("target ", Printable(bench.target.Text()), "\n\n", TextTable(rows, "lll"));
  if (is_cut) text += "* was interrupted and went on from a checkpoint\n";
  const std::vector<AccuracySummary> summaries = SummariesOf(bench);
  std::vector<std::vector<std::string>> table = {{"setting", "reached", "clock", "epochs", "images/s", "joules",
                                                  StrCat("clock / ", bench.settings.front().name, "'s")}};
  for (const AccuracySummary& summary : summaries) table.push_back(SummaryRow(summary));
  if (summaries.size() == 1) {
    for (std::vector<std::string>& row : table) row.pop_back();
  }
  return StrCat(text, "\nmedian [min..max] of the runs that reached it\n", TextTable(table, "ll"));
}

std::string AccuracyCsv(const AccuracyBench& bench) {
  std::string text = StrCat("setting,seed,outcome,clock_s,epochs,iterations,", CsvName(bench.target.metric),
                            ",images_per_s,training_images_per_s,input_wait,init_s,peak_bytes,joules,sessions\n");
  for (const AccuracyRun& run : bench.runs) {
    if (!run.has_ended()) continue;
    const AccuracyPoint* last = LastPoint(run);
    const std::vector<std::string> cells = {CsvName(run.setting),
                                            std::to_string(run.seed),
                                            std::string(NameOf(run.end)),
                                            CsvCell(run.clock_s),
                                            last == nullptr ? "" : CsvCell(last->epoch),
                                            last == nullptr ? "" : std::to_string(last->iteration),
                                            last == nullptr ? "" : CsvCell(last->value),
                                            CsvCell(run.images_per_s),
                                            CsvCell(run.training_images_per_s),
                                            CsvCell(run.input_wait),
                                            CsvCell(run.init_s),
                                            run.peak_bytes > 0 ? std::to_string(run.peak_bytes) : "",
                                            CsvCell(run.joules),
                                            std::to_string(run.sessions)};
    text += Join(cells, ",") + "\n";
  }
  return text;
}

std::string AccuracySvg(const AccuracyBench& bench) {
  std::vector<PlotSeries> series;
  for (size_t i = 0; i < bench.settings.size(); ++i) {
    const std::string& name = bench.settings[i].name;
    const AccuracyRun* const middle = MiddleRun(bench, name);
    bool is_named = false;
    for (const AccuracyRun& run : bench.runs) {
      if (run.setting != name || run.points.empty()) continue;
      PlotSeries line{.name = is_named ? "" : name,
                      .markers = run.points.size() == 1,
                      .color = static_cast<int>(i),
                      .is_thin = &run != middle};
      is_named = true;
      // Without a value, so that the clock's axis begins at 0.
      line.points.emplace_back(0, std::numeric_limits<double>::quiet_NaN());
      for (const AccuracyPoint& point : run.points) line.points.emplace_back(point.clock_s, point.value);
      series.push_back(std::move(line));
    }
  }
  PlotOptions options{.title = StrCat("time to ", bench.target.Text()),
                      .x_label = "seconds since training data was first touched",
                      .y_label = bench.target.metric};
  options.level = PlotLevel{.y = bench.target.value, .name = ToText(bench.target.value)};
  return LineChart(options, series);
}

}  // namespace moka
