// Line charts are those of plots/ (optim/run/plot.h); bars and squares are drawn here.
#include "tools/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/markup.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr double kLeft = 56;
constexpr double kTop = 16;
constexpr double kSide = 320;  // of the square that a chart fills

std::string Begin(double width, double height, std::string_view what) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" width=\"{:g}\" height=\"{:g}\" "
      "role=\"img\" aria-label=\"{}\" class=\"own\">\n",
      width, height, width, height, MarkupText(what));
}

std::string Box(double x, double y, double width, double height, std::string_view style) {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" {}/>\n", x, y, width, height,
                     style);
}

std::string Words(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, MarkupText(text));
}

// Both axes from 0 to 1 over a square.
std::string UnitAxes(double left, double top, std::string_view x_label, std::string_view y_label) {
  std::string svg;
  for (int i = 0; i <= 5; ++i) {
    const double part = i / 5.0;
    const double y = top + kSide * (1 - part);
    const double x = left + kSide * part;
    svg += fmt::format("<path class=\"grid\" d=\"M{:g} {:.1f}H{:g}M{:.1f} {:g}V{:g}\"/>\n", left, y, left + kSide, x,
                       top, top + kSide);
    svg += Words(left - 8, y + 4, "end", fmt::format("{:.1f}", part));
    svg += Words(x, top + kSide + 18, "middle", fmt::format("{:.1f}", part));
  }
  svg += Words(left + kSide / 2, top + kSide + 38, "middle", x_label);
  svg += fmt::format("<text transform=\"translate({:g} {:g}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                     left - 38, top + kSide / 2, MarkupText(y_label));
  return svg;
}

}  // namespace

std::string PrecisionRecallChart(const ReportContent& content) {
  std::vector<PlotSeries> series;
  for (size_t i = 0; i < content.curves.size(); ++i) {
    const ReportCurve& curve = content.curves[i];
    PlotSeries drawn{.is_thin = i > 0};
    for (size_t k = 0; k < curve.precisions.size(); ++k) {
      drawn.points.emplace_back(static_cast<double>(k) / RankedCurve::kSteps, curve.precisions[k]);
    }
    series.push_back(std::move(drawn));
  }
  PlotOptions options{.x_label = "recall", .y_label = "precision", .width = 640, .height = 420};
  options.range_x = options.range_y = {0.0, 1.0};
  return LineChart(options, series);
}

std::string ReliabilityChart(const Reliability& reliability) {
  constexpr double kCounts = 84;  // height of the lower chart
  constexpr double kLower = kTop + kSide + 62;
  std::string svg = Begin(kLeft + kSide + 16, kLower + kCounts + 28, "reliability diagram");
  svg += UnitAxes(kLeft, kTop, "confidence", "accuracy");
  int64_t most = 1;
  for (const Reliability::Bin& bin : reliability.bins()) most = std::max(most, bin.samples);
  const double width = kSide / Reliability::kBins;
  for (size_t i = 0; i < Reliability::kBins; ++i) {
    const Reliability::Bin& bin = reliability.bins().at(i);
    if (bin.samples == 0) continue;
    const double x = kLeft + width * static_cast<double>(i);
    const double low = std::min(bin.accuracy(), bin.confidence());
    const double high = std::max(bin.accuracy(), bin.confidence());
    svg += Box(x + 1, kTop + kSide * (1 - bin.accuracy()), width - 2, kSide * bin.accuracy(), "class=\"bar\"");
    svg += Box(x + 1, kTop + kSide * (1 - high), width - 2, kSide * (high - low), "class=\"gap\"");
    const double part = static_cast<double>(bin.samples) / static_cast<double>(most);
    svg += fmt::format("<g><title>{} samples, confidence {:.3f}, accuracy {:.3f}</title>", bin.samples,
                       bin.confidence(), bin.accuracy());
    svg += Box(x + 1, kLower + kCounts * (1 - part), width - 2, std::max(1.0, kCounts * part), "class=\"count\"");
    svg += "</g>\n";
  }
  svg += fmt::format("<path class=\"ideal\" d=\"M{:g} {:g}L{:g} {:g}\"/>\n", kLeft, kTop + kSide, kLeft + kSide, kTop);
  svg += fmt::format("<path class=\"axis\" d=\"M{:g} {:g}h{:g}\"/>\n", kLeft, kLower + kCounts, kSide);
  svg += Words(kLeft - 8, kLower + 8, "end", fmt::format("{}", most));
  svg += Words(kLeft - 8, kLower + kCounts, "end", "0");
  svg += Words(kLeft + kSide / 2, kLower + kCounts + 18, "middle", "samples a bin");
  return svg + "</svg>\n";
}

std::string ConfusionMap(const ReportContent& content) {
  const auto classes = static_cast<double>(content.classes.size());
  constexpr double kMap = 520;
  const double cell = kMap / classes;
  std::string svg = Begin(kMap + 40, kMap + 40, "confusion matrix");
  svg += Box(30, 10, kMap, kMap, "class=\"ground\"");
  for (const ConfusionCell& one : content.confusion) {
    const ReportClass& row = content.classes.at(static_cast<size_t>(one.label));
    const double share =
        static_cast<double>(one.count) / static_cast<double>(std::max<int64_t>(row.counts->support, 1));
    // A confusion of one in a hundred is to be seen.
    const double ink = one.label == one.predicted ? share : std::sqrt(share);
    svg +=
        Box(30 + cell * static_cast<double>(one.predicted), 10 + cell * static_cast<double>(one.label), cell, cell,
            fmt::format("class=\"{}\" fill-opacity=\"{:.2f}\"", one.label == one.predicted ? "right" : "wrong", ink));
  }
  svg += Words(30 + kMap / 2, kMap + 30, "middle", "predicted");
  svg += fmt::format("<text transform=\"translate(20 {:g}) rotate(-90)\" text-anchor=\"middle\">label</text>\n",
                     10 + kMap / 2);
  return svg + "</svg>\n";
}

}  // namespace moka
