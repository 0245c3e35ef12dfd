// moka report: the report of a run, or of a model with its weights, made again or for the first time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/report/report_json.h"
#include "tools/report/run_report.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

void PrintReport(const ReportContent& content, const std::string& page) {
  for (const ReportMetric& metric : content.metrics) {
    const std::string interval =
        metric.interval ? fmt::format("  (95 %: {:.4f} to {:.4f})", metric.interval->low, metric.interval->high) : "";
    Print("{} = {:.6g}{}\n", metric.name, metric.value, interval);
  }
  if (content.pass) Print("samples = {}\n", content.pass->samples);
  Print("{}\n", page);
}

int RunReportOfRun(const Arguments& arguments) {
  const std::string run = arguments.Word(0, "a run or a model");
  RunReportOptions options;
  options.runs = arguments.Get("runs", "runs");
  options.out = arguments.Get("out");
  options.compile = CompileOptionsOf(arguments);
  options.is_precision_asked = arguments.Has("precision");
  options.batches = arguments.Int("iterations", 0, 1, INT64_MAX);
  const ProgressMode mode = ParseProgressMode(arguments.Get("progress", "auto"));
  arguments.RefuseUnread({"json"});
  std::optional<ProgressBar> bar;
  options.on_batch = [&](int64_t done, int64_t of) {
    if (!bar) bar.emplace(mode, "batch", of);
    bar->Update(done, "");
    return true;
  };
  const std::optional<ReportContent> content = WriteRunReport(run, options);
  bar.reset();
  if (arguments.Has("json")) {
    PrintJson(ReportJson(*content));
  } else {
    PrintReport(*content, ReportPageOf(ReportFolderOf(run, options)).string());
  }
  return 0;
}

}  // namespace

Verb ReportVerb() {
  Verb verb;
  verb.name = "report";
  verb.summary = "test the weights of a run or a model and write report.html and report.json";
  verb.usage = "RUN[@WHICH]|MODEL [--flags]";
  verb.examples = {"moka report runs/latest", "moka report lenet-0001@iter_500", "moka report zoo:lenet --out lenet"};
  verb.options = {{"runs", "FOLDER", "where runs lie (default runs)"},
                  {"out", "FOLDER", "where both go (default: the run's folder, or NAME-report)"},
                  {"iterations", "N", "batches (default: the data once)"},
                  {"progress", "MODE", "auto, bar, lines or off"},
                  {"json", "", "print as JSON what report.json holds"}};
  constexpr std::array<std::string_view, 4> kNotHere = {"dry-run", "explain", "recompute", "trace"};
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (std::ranges::find(kNotHere, option.name) == kNotHere.end()) verb.options.push_back(option);
  }
  verb.most_words = 1;
  verb.run = RunReportOfRun;
  return verb;
}

}  // namespace moka
