// A function for each section; a section without content is none. The frame, its styles and its few lines of script
// are page.html's.
#include "tools/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "core/markup.h"
#include "core/text.h"
#include "tools/report/report_charts.h"

namespace moka {
namespace {

constexpr size_t kTableClasses = 25;  // of a confusion matrix with numbers
constexpr size_t kMapClasses = 100;   // of one that is drawn
constexpr size_t kWorstPairs = 12;
constexpr double kAlike = 0.005;  // confidence and accuracy

std::string Section(std::string_view title, const std::string& content) {
  if (content.empty()) return {};
  return StrCat("<section>\n<h2>", title, "</h2>\n", content, "</section>\n");
}

std::string Number(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : std::string("–"); }

// "97.50 %".
std::string Percent(double share) { return std::isfinite(share) ? fmt::format("{:.2f} %", share * 100) : "–"; }

// Cells that sort by their values. The names differ, as a double would become a whole number before it became optional.
std::string ShareCell(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return "<td data-v=\"\">–</td>";
  return fmt::format("<td data-v=\"{:.9g}\">{:.4f}</td>", *value, *value);
}
std::string CountCell(int64_t value) { return fmt::format("<td data-v=\"{}\">{}</td>", value, value); }

std::string NameCell(std::string_view name) {
  const std::string text = MarkupText(name);
  return StrCat("<td class=\"name\" title=\"", text, "\">", text, "</td>");
}

std::string Headline(const ReportContent& content) {
  std::string html;
  for (const ReportMetric& metric : content.metrics) {
    std::string below;
    if (metric.interval)
      below = fmt::format("95 %: {:.2f} to {:.2f}", metric.interval->low * 100, metric.interval->high * 100);
    html +=
        StrCat("<div class=\"tile\"><span>", MarkupText(metric.name), "</span><b>",
               metric.interval ? Percent(metric.value) : Number(metric.value), "</b><span>", below, "</span></div>\n");
  }
  if (!html.empty()) html = StrCat("<div class=\"tiles\">\n", html, "</div>\n");
  if (content.pass) {
    const bool has_interval =
        std::ranges::any_of(content.metrics, [](const ReportMetric& metric) { return metric.interval.has_value(); });
    html += fmt::format("<p class=\"soft\">Test of {} samples in batches of {}, {:.1f} s.{}</p>\n",
                        content.pass->samples, content.pass->batch, content.pass->seconds,
                        has_interval ? " Intervals are Wilson's: they say what so many samples leave open, not what "
                                       "another seed would give."
                                     : "");
  }
  for (const std::string& note : content.notes) html += StrCat("<p>", MarkupText(note), "</p>\n");
  return html;
}

std::string Curves(const ReportContent& content) {
  std::string html;
  for (const RunChart& chart : content.charts) {
    PlotOptions options = chart.options;
    options.title = options.y_label;
    options.width = 1000;
    options.height = 360;
    html += StrCat("<div class=\"wide\">", LineChart(options, chart.series), "</div>\n");
  }
  return html;
}

// Rows are labels, columns what they were taken for; a cell is as strong as its share of the row.
std::string ConfusionTable(const ReportContent& content) {
  const size_t classes = content.classes.size();
  std::vector<int64_t> counts(classes * classes);
  for (const ConfusionCell& cell : content.confusion)
    counts.at(static_cast<size_t>(cell.label) * classes + static_cast<size_t>(cell.predicted)) = cell.count;
  std::string html = "<div class=\"wide\"><table class=\"matrix\"><thead><tr><th></th>";
  for (size_t c = 0; c < classes; ++c) {
    const std::string name = MarkupText(ClassText(content, static_cast<int64_t>(c)));
    html += StrCat("<th class=\"column\" title=\"", name, "\">", name, "</th>");
  }
  html += "</tr></thead><tbody>\n";
  for (size_t row = 0; row < classes; ++row) {
    const int64_t support = content.classes[row].counts->support;
    html += StrCat("<tr><th class=\"name\">", MarkupText(ClassText(content, static_cast<int64_t>(row))), "</th>");
    for (size_t c = 0; c < classes; ++c) {
      const int64_t count = counts[row * classes + c];
      const double share = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(support, 1));
      if (count == 0) {
        html += "<td></td>";
        continue;
      }
      const double ink = 0.8 * (row == c ? share : std::sqrt(share));
      html += fmt::format("<td style=\"background: rgba(var(--{}), {:.2f})\" title=\"{} of {}\">{:.1f}</td>",
                          row == c ? "right" : "wrong", ink, count, support, share * 100);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string WorstPairs(const ReportContent& content) {
  std::vector<ConfusionCell> pairs = content.confusion;
  std::erase_if(pairs, [](const ConfusionCell& cell) { return cell.label == cell.predicted; });
  if (pairs.empty()) return {};
  std::ranges::stable_sort(pairs, std::greater<>(), &ConfusionCell::count);
  pairs.resize(std::min(pairs.size(), kWorstPairs));
  std::string html =
      "<div class=\"wide\"><table class=\"sortable\"><thead><tr><th class=\"name\">label</th><th class=\"name\">taken "
      "for</th><th>count</th><th>share of the label</th></tr></thead><tbody>\n";
  for (const ConfusionCell& pair : pairs) {
    const int64_t support = content.classes.at(static_cast<size_t>(pair.label)).counts->support;
    html += StrCat("<tr>", NameCell(ClassText(content, pair.label)), NameCell(ClassText(content, pair.predicted)),
                   CountCell(pair.count), ShareCell(static_cast<double>(pair.count) / static_cast<double>(support)),
                   "</tr>\n");
  }
  return html + "</tbody></table></div>\n";
}

std::string Confusion(const ReportContent& content) {
  if (content.confusion.empty()) return {};
  const size_t classes = content.classes.size();
  const std::string& unit = content.pass->unit;
  std::string html = StrCat("<p class=\"soft\">Rows are labels, columns what they were taken for",
                            classes <= kTableClasses ? StrCat(", in percent of the row's ", unit) : std::string(),
                            ". Right answers are blue; red grows with the root of the share, so that rare confusions "
                            "can be seen.</p>\n");
  std::string map;
  if (classes <= kTableClasses) {
    map = ConfusionTable(content);
  } else if (classes <= kMapClasses) {
    map = ConfusionMap(content);
  } else {
    html = StrCat("<p class=\"soft\">The most frequent confusions of ", classes, " classes.</p>\n");
  }
  const std::string pairs = WorstPairs(content);
  const std::string shown = map.empty() ? pairs : StrCat("<div class=\"pair\">\n", map, pairs, "</div>\n");
  return StrCat(html, shown);
}

std::string Classes(const ReportContent& content) {
  if (content.classes.empty()) return {};
  const auto any = [&](auto member) {
    return std::ranges::any_of(content.classes, [&](const ReportClass& one) { return (one.*member).has_value(); });
  };
  const bool has_counts = any(&ReportClass::counts);
  const bool has_objects = any(&ReportClass::objects);
  const bool has_precision = any(&ReportClass::average_precision);
  const bool has_overlap = any(&ReportClass::overlap);
  const bool has_names = std::ranges::any_of(content.classes, [](const ReportClass& one) { return !one.name.empty(); });
  // A class that nothing had and nothing was taken for; a net of many words for few answers has more of them than
  // others.
  const auto is_unused = [](const ReportClass& one) {
    return one.counts && one.counts->support == 0 && one.counts->predicted == 0;
  };
  const auto unused = std::ranges::count_if(content.classes, is_unused);
  std::string html = "<div class=\"wide\"><table class=\"sortable\"><thead><tr><th>class</th>";
  if (has_names) html += "<th class=\"name\">name</th>";
  if (has_counts) html += "<th>support</th><th>predicted</th><th>precision</th><th>recall</th><th>F1</th>";
  if (has_objects) html += "<th>objects</th>";
  if (has_precision) html += "<th>average precision</th>";
  if (has_overlap) html += "<th>IoU</th>";
  html += "</tr></thead><tbody>\n";
  for (const ReportClass& one : content.classes) {
    if (is_unused(one)) continue;
    html += StrCat("<tr>", CountCell(one.number), has_names ? NameCell(one.name) : std::string());
    if (has_counts) {
      const ClassCounts counts = one.counts.value_or(ClassCounts{});
      html += StrCat(CountCell(counts.support), CountCell(counts.predicted), ShareCell(counts.precision()),
                     ShareCell(counts.recall()), ShareCell(counts.f1()));
    }
    if (has_objects) html += CountCell(one.objects.value_or(0));
    if (has_precision) html += ShareCell(one.average_precision);
    if (has_overlap) html += ShareCell(one.overlap);
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (unused == 0) return html;
  return html + StrCat("<p class=\"soft\">", Counted(unused, "class has", "classes have"),
                       " no sample in the test, and none was taken for one.</p>\n");
}

std::string PrecisionRecall(const ReportContent& content) {
  if (content.curves.empty()) return {};
  std::string html =
      "<p class=\"soft\">The mean over classes, and the classes of the least average precision. Drawn is the best "
      "precision at each recall or more; average precisions are listed.</p>\n<div class=\"pair\">\n";
  html += PrecisionRecallChart(content) + "<ul class=\"legend\">\n";
  for (size_t i = 0; i < content.curves.size(); ++i) {
    const ReportCurve& curve = content.curves[i];
    html += fmt::format("<li><i style=\"background: {}\"></i><span>{}</span><b>{:.4f}</b></li>\n", PlotColor(i),
                        MarkupText(curve.name), curve.average_precision);
  }
  return html + "</ul>\n</div>\n";
}

std::string Calibration(const ReportContent& content) {
  if (!content.reliability) return {};
  const Reliability& reliability = *content.reliability;
  const double confidence = reliability.mean_confidence();
  int64_t right = 0;
  for (const Reliability::Bin& bin : reliability.bins()) right += bin.right;
  const double accuracy = static_cast<double>(right) / static_cast<double>(std::max<int64_t>(reliability.samples(), 1));
  std::string html = StrCat("<div class=\"pair\">\n", ReliabilityChart(reliability), "<div>\n");
  html += fmt::format(
      "<p>Expected calibration error <b>{:.4f}</b>, largest {:.4f}, in {} bins. Mean confidence {:.4f} at an accuracy "
      "of {:.4f}{}.</p>\n",
      reliability.expected_error(), reliability.largest_error(), Reliability::kBins, confidence, accuracy,
      std::abs(confidence - accuracy) < kAlike ? ""
      : confidence > accuracy                  ? ": the net is surer than it is right"
                                               : ": the net is right more often than it is sure");
  html +=
      "<p class=\"soft\">A bar is the accuracy of the samples whose confidence lies in the bin; on the dashed line "
      "they "
      "would be right as often as the net says. Red is the gap to their mean confidence. After Guo, Pleiss, Sun and "
      "Weinberger, On Calibration of Modern Neural Networks, ICML 2017 (arXiv 1706.04599).</p>\n";
  return html + "</div>\n</div>\n";
}

std::string Mistakes(const ReportContent& content) {
  if (content.mistakes.empty()) return {};
  const bool are_all = content.mistakes_in_all == std::ssize(content.mistakes);
  std::string html = StrCat(
      "<p class=\"soft\">",
      are_all
          ? StrCat("All ", content.mistakes_in_all, " mistakes, that of the largest loss first.")
          : StrCat("Of ", content.mistakes_in_all, " mistakes the ", content.mistakes.size(), " of the largest loss."),
      "</p>\n<div class=\"sheet\">\n");
  for (const ReportMistake& mistake : content.mistakes) {
    const ScoredSample& sample = mistake.sample;
    constexpr int64_t kSmall = 64;
    html += "<figure><div>";
    if (!mistake.picture.empty()) {
      html += StrCat("<img", mistake.side <= kSmall ? " class=\"small\"" : "", " alt=\"\" src=\"data:", mistake.media,
                     ";base64,", Base64(mistake.picture), "\">");
    }
    const std::string record = mistake.record.empty() ? StrCat("sample ", sample.number) : mistake.record;
    html += StrCat("</div><figcaption><b>", MarkupText(ClassText(content, sample.label)), "</b> taken for <b>",
                   MarkupText(ClassText(content, sample.predicted)), "</b><br>");
    html += content.reliability ? fmt::format("confidence {:.3f}<br>loss {:.2f}<br>", sample.confidence, sample.loss)
                                : fmt::format("by {:.3g}<br>", sample.loss);
    html += StrCat(MarkupText(record), "</figcaption></figure>\n");
  }
  return html + "</div>\n";
}

std::string Facts(const ReportContent& content) {
  std::string html;
  for (const auto& [name, text] : content.facts) {
    const bool is_command = text.starts_with("moka ") && name != "version";
    html += StrCat("<dt>", MarkupText(name), "</dt><dd>", is_command ? "<code>" : "", MarkupText(text),
                   is_command ? "</code>" : "", "</dd>\n");
  }
  return html.empty() ? html : StrCat("<dl>\n", html, "</dl>\n");
}

}  // namespace

std::string ReportPage(const ReportContent& content) {
  std::string subtitle = content.net.empty() ? std::string() : StrCat("net ", content.net);
  for (const std::string& part : {content.task, content.weights}) {
    if (!part.empty()) subtitle += StrCat(subtitle.empty() ? "" : " · ", part);
  }
  const std::string sections =
      StrCat(Section("Result", Headline(content)), Section("Curves", Curves(content)),
             Section("Confusion matrix", Confusion(content)), Section("Classes", Classes(content)),
             Section("Precision and recall", PrecisionRecall(content)), Section("Calibration", Calibration(content)),
             Section("Worst mistakes", Mistakes(content)), Section("To repeat it", Facts(content)));
  // Each piece is put in once, and what it holds is not looked at again: a name may be "{{title}}".
  std::string page;
  std::string_view rest = PageTemplate();
  for (size_t at = rest.find("{{"); at != std::string_view::npos; at = rest.find("{{")) {
    const size_t end = rest.find("}}", at);
    const std::string_view name = rest.substr(at + 2, end - at - 2);
    page += rest.substr(0, at);
    page += name == "sections" ? sections : MarkupText(name == "title" ? content.run : subtitle);
    rest = rest.substr(end + 2);
  }
  page += rest;
  return page;
}

}  // namespace moka
