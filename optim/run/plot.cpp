// SVG written as text: axes with round ticks, one path a series, gaps where a value is not finite.
#include "optim/run/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "core/file.h"
#include "core/markup.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array<std::string_view, 8> kColors = {"#2563eb", "#dc2626", "#059669", "#d97706",
                                                     "#7c3aed", "#0891b2", "#db2777", "#4d7c0f"};
constexpr double kMarginLeft = 72;
constexpr double kMarginRight = 24;
constexpr double kMarginTop = 56;
constexpr double kMarginBottom = 56;

std::string_view ColorOf(const std::vector<PlotSeries>& series, size_t i) {
  const size_t number = series[i].color < 0 ? i : static_cast<size_t>(series[i].color);
  return PlotColor(number);
}

// Two decimals are a hundredth of a pixel; no trailing zeros.
std::string Pixel(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string s = text.data();
  s.erase(s.find_last_not_of('0') + 1);
  if (s.ends_with('.')) s.pop_back();
  return s == "-0" ? "0" : s;
}

// A tick's number: thousands as "20k", millions as "2M", small ones in full.
std::string TickText(double value) {
  std::array<char, 40> text{};
  const double size = std::abs(value);
  std::string_view unit;
  if (size >= 1e6 && size < 1e9) {
    value /= 1e6;
    unit = "M";
  } else if (size >= 1e4 && size < 1e6) {
    value /= 1e3;
    unit = "k";
  }
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return StrCat(text.data(), unit);
}

// Maps one axis to pixels.
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;  // pixel of low
  double to = 1;    // pixel of high
  bool is_log = false;

  bool Holds(double v) const { return std::isfinite(v) && (!is_log || v > 0); }
  double Position(double v) const {
    const double t = is_log ? (std::log10(v) - low) / (high - low) : (v - low) / (high - low);
    return from + t * (to - from);
  }
  // Values with a line and a number.
  std::vector<double> Ticks(int count) const {
    if (!is_log) return AxisTicks(low, high, count);
    std::vector<double> ticks;
    for (double e = std::ceil(low); e <= std::floor(high); ++e) ticks.push_back(std::pow(10, e));
    if (ticks.size() >= 2) return ticks;
    return AxisTicks(std::pow(10, low), std::pow(10, high), count);
  }
};

Axis FitAxis(const std::vector<double>& values, bool is_log, double padding) {
  Axis axis;
  axis.is_log = is_log;
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const double v : values) {
    if (!axis.Holds(v)) continue;
    const double position = is_log ? std::log10(v) : v;
    low = std::min(low, position);
    high = std::max(high, position);
  }
  if (low > high) return axis;
  if (low == high) {
    const double room = low == 0 ? 1 : std::abs(low) * 0.5;
    low -= room;
    high += room;
  }
  const double room = (high - low) * padding;
  // A curve that stays at or above zero is drawn on a floor of zero rather than below it.
  axis.low = !is_log && low >= 0 && low - room < 0 ? 0 : low - room;
  axis.high = high + room;
  return axis;
}

std::vector<std::pair<double, double>> Smoothed(const PlotSeries& series, const Axis& y) {
  std::vector<std::pair<double, double>> points;
  const double keep = std::exp2(-1 / series.smoothing);
  double sum = 0;
  double weight = 0;  // corrects the start, as Adam's bias correction does
  for (const auto& [x, v] : series.points) {
    if (!y.Holds(v)) {
      points.emplace_back(x, std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    sum = keep * sum + (1 - keep) * v;
    weight = keep * weight + (1 - keep);
    points.emplace_back(x, sum / weight);
  }
  return points;
}

// Path data: a new piece after each gap. A lone point gets a short stroke, which round caps make a dot.
std::string PathData(const std::vector<std::pair<double, double>>& points, const Axis& x, const Axis& y) {
  std::string data;
  bool is_open = false;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [px, py] = points[i];
    if (!x.Holds(px) || !y.Holds(py)) {
      is_open = false;
      continue;
    }
    const std::string place = StrCat(Pixel(x.Position(px)), " ", Pixel(y.Position(py)));
    const bool is_last = i + 1 == points.size() || !y.Holds(points[i + 1].second);
    data += StrCat(is_open ? "L" : "M", place);
    if (!is_open && is_last) data += "h.01";
    is_open = true;
  }
  return data;
}

std::string Text(double x, double y, std::string_view style, std::string_view text) {
  return StrCat("<text x=\"", Pixel(x), "\" y=\"", Pixel(y), "\" ", style, ">", MarkupText(text), "</text>\n");
}

std::string Line(double x0, double y0, double x1, double y1, std::string_view color) {
  return StrCat("<path d=\"M", Pixel(x0), " ", Pixel(y0), "L", Pixel(x1), " ", Pixel(y1), "\" stroke=\"", color,
                "\" stroke-width=\"1\"/>\n");
}

std::string DrawGrid(const PlotOptions& options, const Axis& x, const Axis& y) {
  constexpr int kTicksX = 8;
  constexpr int kTicksY = 6;
  constexpr std::string_view kGrid = "#e5e7eb";
  std::string svg;
  for (const double tick : y.Ticks(kTicksY)) {
    const double at = y.Position(tick);
    svg += Line(x.from, at, x.to, at, kGrid);
    svg += Text(x.from - 8, at + 4, "text-anchor=\"end\" fill=\"#4b5563\"", TickText(tick));
  }
  for (const double tick : x.Ticks(kTicksX)) {
    const double at = x.Position(tick);
    svg += Line(at, y.from, at, y.to, kGrid);
    svg += Text(at, y.from + 20, "text-anchor=\"middle\" fill=\"#4b5563\"", TickText(tick));
  }
  svg += Line(x.from, y.from, x.to, y.from, "#9ca3af");
  svg += Line(x.from, y.from, x.from, y.to, "#9ca3af");
  svg += Text((x.from + x.to) / 2, options.height - 14, "text-anchor=\"middle\" fill=\"#374151\"", options.x_label);
  const double middle = (y.from + y.to) / 2;
  svg += StrCat("<text transform=\"translate(18 ", Pixel(middle), ") rotate(-90)\" text-anchor=\"middle\" ",
                "fill=\"#374151\">", MarkupText(options.y_label), "</text>\n");
  return svg;
}

std::string DrawSeries(const PlotSeries& series, std::string_view color, const Axis& x, const Axis& y) {
  const auto path = [&](const std::vector<std::pair<double, double>>& points, std::string_view style) {
    const std::string data = PathData(points, x, y);
    if (data.empty()) return std::string();
    return StrCat("<path d=\"", data, "\" fill=\"none\" stroke=\"", color, "\" stroke-linejoin=\"round\" ",
                  "stroke-linecap=\"round\" ", style, "/>\n");
  };
  constexpr std::string_view kBold = "stroke-width=\"2\"";
  constexpr std::string_view kThin = "stroke-width=\"1\" stroke-opacity=\"0.6\"";
  if (series.smoothing > 0) {
    return path(series.points, "stroke-width=\"1\" stroke-opacity=\"0.3\"") + path(Smoothed(series, y), kBold);
  }
  std::string svg = path(series.points, series.is_thin ? kThin : kBold);
  if (!series.markers) return svg;
  for (const auto& [px, py] : series.points) {
    if (!x.Holds(px) || !y.Holds(py)) continue;
    svg += StrCat("<circle cx=\"", Pixel(x.Position(px)), "\" cy=\"", Pixel(y.Position(py)), "\" r=\"3\" fill=\"",
                  color, "\"/>\n");
  }
  return svg;
}

// Dashes across the chart, with the name above their right end.
std::string DrawLevel(const PlotLevel& level, const Axis& x, const Axis& y) {
  if (!y.Holds(level.y)) return {};
  const double at = y.Position(level.y);
  return StrCat("<path d=\"M", Pixel(x.from), " ", Pixel(at), "L", Pixel(x.to), " ", Pixel(at),
                "\" stroke=\"#111827\" stroke-width=\"1\" stroke-dasharray=\"6 4\"/>\n") +
         Text(x.to, at - 5, "text-anchor=\"end\" fill=\"#111827\"", level.name);
}

// Names in a row under the title, the widths guessed from the letters.
std::string DrawLegend(const std::vector<PlotSeries>& series, double left) {
  constexpr double kLetter = 7;
  constexpr double kTop = 44;
  std::string svg;
  for (size_t i = 0; i < series.size(); ++i) {
    if (series[i].name.empty()) continue;
    svg += StrCat("<path d=\"M", Pixel(left), " ", Pixel(kTop - 4), "h18\" stroke=\"", ColorOf(series, i),
                  "\" stroke-width=\"3\" stroke-linecap=\"round\"/>\n");
    svg += Text(left + 24, kTop, "fill=\"#374151\"", series[i].name);
    left += 24 + kLetter * static_cast<double>(series[i].name.size()) + 22;
  }
  return svg;
}

std::string CsvCell(double value) { return std::isfinite(value) ? ToText(value) : "nan"; }

std::string CsvHeader(std::string text) {
  for (char& c : text) {
    if (c == ',' || c == '"' || c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

std::string_view PlotColor(size_t number) { return kColors.at(number % kColors.size()); }

std::vector<double> AxisTicks(double low, double high, int count) {
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double slack = step * 1e-9;
  for (double k = std::ceil((low - slack) / step); k * step <= high + slack; ++k)
    ticks.push_back(k == 0 ? 0 : k * step);
  return ticks;
}

std::string LineChart(const PlotOptions& options, const std::vector<PlotSeries>& series) {
  std::vector<double> xs;
  std::vector<double> ys;
  for (const PlotSeries& s : series) {
    for (const auto& [px, py] : s.points) {
      xs.push_back(px);
      ys.push_back(py);
    }
  }
  if (options.level) ys.push_back(options.level->y);
  constexpr double kRoomY = 0.05;
  Axis x = FitAxis(xs, false, 0);
  Axis y = FitAxis(ys, options.log_y, kRoomY);
  if (options.range_x) std::tie(x.low, x.high) = *options.range_x;
  if (options.range_y) std::tie(y.low, y.high) = *options.range_y;
  x.from = kMarginLeft;
  x.to = options.width - kMarginRight;
  y.from = options.height - kMarginBottom;
  y.to = kMarginTop;
  std::string svg = StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", options.width, "\" height=\"",
                           options.height, "\" viewBox=\"0 0 ", options.width, " ", options.height,
                           "\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\">\n");
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  svg += Text(kMarginLeft, 24, "font-size=\"16\" font-weight=\"bold\" fill=\"#111827\"", options.title);
  svg += DrawGrid(options, x, y);
  for (size_t i = 0; i < series.size(); ++i) svg += DrawSeries(series[i], ColorOf(series, i), x, y);
  if (options.level) svg += DrawLevel(*options.level, x, y);
  svg += DrawLegend(series, kMarginLeft);
  return svg + "</svg>\n";
}

std::string PlotCsv(const PlotOptions& options, const std::vector<PlotSeries>& series) {
  std::vector<std::string> header = {CsvHeader(options.x_label)};
  std::map<double, std::vector<std::string>> rows;
  for (size_t i = 0; i < series.size(); ++i) {
    header.push_back(CsvHeader(series[i].name));
    for (const auto& [x, y] : series[i].points) {
      if (!std::isfinite(x)) continue;
      std::vector<std::string>& row = rows[x];
      row.resize(series.size());
      row[i] = CsvCell(y);
    }
  }
  std::string csv = Join(header, ",") + "\n";
  for (const auto& [x, row] : rows) csv += StrCat(ToText(x), ",", Join(row, ","), "\n");
  return csv;
}

void WritePlot(const std::filesystem::path& folder, const std::string& name, const PlotOptions& options,
               const std::vector<PlotSeries>& series) {
  WriteFileAtomically(folder / (name + ".csv"), PlotCsv(options, series));
  WriteFileAtomically(folder / (name + ".svg"), LineChart(options, series));
}

}  // namespace moka
