// The report as a page of HTML: a table of numbers a source, bars of classes, and the findings with small pictures. All
// text of others is escaped, the pictures are data URIs, and a policy in the page itself forbids scripts and whatever
// lies elsewhere.
#include <algorithm>

#include "core/markup.h"
#include "core/text.h"
#include "data/check/check.h"
#include "data/check/source_summary.h"

namespace moka {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>moka data check</title>
<style>
:root { color-scheme: light dark; --line: #d0d4da; --dim: #5b6370; --bar: #3b78c3; --error: #c0262d;
  --warning: #a86400; --note: #5b6370; --good: #1c7c3c; --card: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3f47; --dim: #9aa3af; --bar: #6aa3e8; --error: #ff7b80;
  --warning: #f0b45a; --note: #9aa3af; --good: #6fd08c; --card: #1d2025; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 66rem; margin: 0 auto; padding: 1.2rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }
th { color: var(--dim); font-weight: normal; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
section { border: 1px solid var(--line); border-left-width: 5px; border-radius: 6px; padding: .5rem .9rem;
  margin: .7rem 0; background: var(--card); }
section.error { border-left-color: var(--error); } section.warning { border-left-color: var(--warning); }
section h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; } section p { margin: .2rem 0; }
.error b { color: var(--error); } .warning b { color: var(--warning); } .note b { color: var(--note); }
.good { color: var(--good); } .bad { color: var(--error); } .dim { color: var(--dim); }
ul { margin: .4rem 0; padding-left: 1.1rem; overflow-wrap: anywhere; } li { margin: .3rem 0; }
img { max-width: 112px; max-height: 112px; margin: .2rem .4rem .2rem 0; border: 1px solid var(--line);
  vertical-align: top; image-rendering: auto; }
svg { vertical-align: middle; } svg rect { fill: var(--bar); }
</style></head><body>
)";

void AddRow(std::string& page, const char* what, const std::string& value) {
  page += StrCat("<tr><th>", what, "</th><td>", MarkupText(value), "</td></tr>\n");
}

template <class Counts>
std::string CountsText(const Counts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += StrCat(text.empty() ? "" : ", ", count, " ", name);
  return text;
}

// Classes as bars; of many, those at both ends.
void AddBars(std::string& page, const char* what, std::vector<std::pair<std::string, int64_t>> counts) {
  if (counts.empty()) return;
  constexpr size_t kMost = 60;
  constexpr int64_t kWidth = 320;
  page += StrCat("<h2>", what, "</h2>\n");
  if (counts.size() > kMost) {
    std::ranges::stable_sort(counts, std::ranges::greater(), &std::pair<std::string, int64_t>::second);
    page += StrCat("<p class=\"dim\">the ", kMost / 2, " most and the ", kMost / 2, " least frequent of ",
                   counts.size(), "</p>\n");
    counts.erase(counts.begin() + kMost / 2, counts.end() - kMost / 2);
  }
  int64_t most = 1;
  for (const auto& [name, count] : counts) most = std::max(most, count);
  page += "<table>\n";
  for (const auto& [name, count] : counts) {
    const int64_t width =
        std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) * kWidth / static_cast<double>(most)));
    page += StrCat("<tr><td>", MarkupText(name), "</td><td class=\"n\">", count, "</td><td><svg width=\"", kWidth,
                   "\" height=\"12\"><rect width=\"", width, "\" height=\"12\"/></svg></td></tr>\n");
  }
  page += "</table>\n";
}

void AddSource(std::string& page, const SourceLook& look) {
  const SourceSummary summary = SummaryOf(look);
  page += StrCat("<h2>", MarkupText(look.source()), "</h2>\n<table>\n");
  AddRow(page, "pictures",
         StrCat(summary.pictures, summary.bad > 0 ? StrCat(", of which ", summary.bad, " are bad") : ""));
  if (summary.bytes > 0) AddRow(page, "files", BytesText(summary.bytes));
  if (summary.distinct_sizes > 0) {
    const auto range = [](const SideRange& side) {
      return StrCat(side.least, " to ", side.most, ", half of them up to ", side.median);
    };
    AddRow(page, "width", range(summary.width));
    AddRow(page, "height", range(summary.height));
    AddRow(page, "sizes", StrCat(summary.distinct_sizes, ": ", CountsText(summary.sizes)));
    AddRow(page, "formats", CountsText(summary.formats));
    AddRow(page, "channels", CountsText(summary.channels));
  }
  for (const auto& [tag, count] : summary.orientations) {
    AddRow(page, "EXIF turns", StrCat("orientation ", tag, ": ", count));
  }
  for (size_t i = 0; i < look.targets().size(); ++i) {
    const bool is_named = static_cast<int>(i) < look.schema().target_size();
    AddRow(page, "target",
           StrCat(is_named ? look.schema().target(static_cast<int>(i)) : std::string(), " from ",
                  look.targets()[i].least, " to ", look.targets()[i].most));
  }
  page += "</table>\n";
  AddBars(page, "Classes of pictures", NamedCounts(look.labels(), LabelNames(look)));
  AddBars(page, "Boxes", NamedCounts(look.boxes(), BoxNames(look)));
  AddBars(page, "Pixels of masks", NamedCounts(look.mask_pixels(), MaskNames(look)));
}

void AddPictures(std::string& page, const FindingExample& example, const CheckReport& report) {
  for (size_t i = 0; i < std::min(kPicturesShown, example.pictures.size()); ++i) {
    const auto found = report.thumbnails.find(example.pictures[i]);
    if (found == report.thumbnails.end()) continue;
    const std::string name = MarkupText(report.looks[found->first.source]->PlaceOf(found->first.index));
    page += StrCat(i == 0 ? "<br>" : "", "<img alt=\"", name, "\" title=\"", name, "\" src=\"data:image/jpeg;base64,",
                   Base64(found->second), "\">");
  }
}

void AddFinding(std::string& page, const Finding& finding, const CheckReport& report) {
  const char* const severity = NameOf(finding.severity);
  page += StrCat("<section class=\"", severity, "\"><h3><b>", severity, "</b> ", MarkupText(finding.title), "</h3>\n");
  if (!finding.help.empty()) page += StrCat("<p class=\"dim\">", MarkupText(finding.help), "</p>\n");
  const size_t shown = std::min(kExamplesShown, finding.examples.size());
  if (shown > 0) page += "<ul>\n";
  for (size_t i = 0; i < shown; ++i) {
    page += StrCat("<li>", MarkupText(finding.examples[i].text));
    AddPictures(page, finding.examples[i], report);
    page += "</li>\n";
  }
  if (shown > 0) page += "</ul>\n";
  if (shown < finding.examples.size()) {
    page += StrCat("<p class=\"dim\">and ", finding.examples.size() - shown, " more, which check.json has</p>\n");
  }
  page += "</section>\n";
}

}  // namespace

std::string CheckPage(const CheckReport& report) {
  std::string page = kHead;
  const bool can_train = report.exit_code == 0;
  page += StrCat("<h1>Check of data: <span class=\"",
                 can_train ? "good\">training can start" : "bad\">training cannot start", "</span></h1>\n<p>",
                 Counted(report.Count(Severity::kError), "error", "errors"), ", ",
                 Counted(report.Count(Severity::kWarning), "warning", "warnings"), "</p>\n");
  for (const Finding& finding : report.findings) AddFinding(page, finding, report);
  for (const auto& look : report.looks) AddSource(page, *look);
  page += "</body></html>\n";
  return page;
}

}  // namespace moka
