// moka data check: whether pictures, labels and annotations are fit for training, before anything is made of them. A
// short text says what is wrong, where, and what to do; JSON and a page have all of it.
#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "data/check/check.h"
#include "data/check/source_summary.h"
#include "data/import/import.h"
#include "optim/signals.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/progress.h"
#include "tools/infer/frames.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr size_t kExamplesNamed = 3;
constexpr size_t kClassesNamed = 12;

std::string RangeText(const SideRange& range) {
  return range.least == range.most ? std::to_string(range.least) : StrCat(range.least, "..", range.most);
}

// "roses 12, tulips 4, .. (of 20)".
void PrintCounts(const char* what, const std::vector<std::pair<std::string, int64_t>>& counts) {
  if (counts.empty()) return;
  std::string text;
  for (size_t i = 0; i < std::min(kClassesNamed, counts.size()); ++i) {
    text += StrCat(i == 0 ? "" : ", ", counts[i].first, " ", counts[i].second);
  }
  if (counts.size() > kClassesNamed) text += StrCat(", .. (", counts.size(), " in all)");
  Print("  {:<8} {}\n", what, text);
}

void PrintSource(const SourceLook& look) {
  const SourceSummary summary = SummaryOf(look);
  Print("{}: {}{}\n", look.source(), Counted(summary.pictures, "picture", "pictures"),
        summary.bad > 0 ? StrCat(", of which ", summary.bad, summary.bad == 1 ? " is bad" : " are bad") : "");
  if (summary.distinct_sizes > 0) {
    std::string kinds;
    for (const auto* counts : {&summary.formats, &summary.channels}) {
      for (const auto& [name, count] : *counts) kinds += StrCat(kinds.empty() ? "" : ", ", count, " ", name);
    }
    Print("  {:<8} {} wide, {} high (most are {}); {}\n", "sizes", RangeText(summary.width), RangeText(summary.height),
          summary.sizes.front().first, kinds);
  }
  PrintCounts("classes", NamedCounts(look.labels(), LabelNames(look)));
  PrintCounts("boxes", NamedCounts(look.boxes(), BoxNames(look)));
  PrintCounts("pixels", NamedCounts(look.mask_pixels(), MaskNames(look)));
}

void PrintFinding(const Finding& finding) {
  Print("{}: {}\n", NameOf(finding.severity), finding.title);
  for (size_t i = 0; i < std::min(kExamplesNamed, finding.examples.size()); ++i) {
    Print("  {}\n", finding.examples[i].text);
  }
  if (finding.examples.size() > kExamplesNamed) {
    Print("  and {} more (--json and --out have all)\n", finding.examples.size() - kExamplesNamed);
  }
  if (!finding.help.empty()) Print("  help: {}\n", finding.help);
}

void PrintReport(const CheckReport& report) {
  for (const auto& look : report.looks) PrintSource(*look);
  for (const Finding& finding : report.findings) PrintFinding(finding);
  Print("training {}: {}, {}\n", report.exit_code == 0 ? "can start" : "cannot start",
        Counted(report.Count(Severity::kError), "error", "errors"),
        Counted(report.Count(Severity::kWarning), "warning", "warnings"));
}

int RunCheck(const Arguments& arguments) {
  arguments.Word(0, "the source (a folder, a list, coco:ANNOTATIONS,PICTURES, a database, ...)");
  const std::vector<std::string> sources = arguments.positionals.All();
  CheckOptions options;
  options.video_frames = WriteFrames;
  options.classes = arguments.Get("classes");
  if (arguments.Has("classes") && options.classes.empty()) {
    throw Error(ErrorKind::kUsage, "--classes is empty, expected a file or a database");
  }
  options.skips_bad = arguments.Has("skip-bad");
  constexpr int64_t kMostWorkers = 1024;
  options.workers = arguments.Int("workers", 0, 1, kMostWorkers);
  const fs::path out = arguments.Get("out");
  if (arguments.Has("out") && out.empty()) throw Error(ErrorKind::kUsage, "--out is empty, expected a folder");
  const bool is_strict = arguments.Has("strict");
  arguments.RefuseUnread({"json"});
  if (!out.empty()) CreateFolders(out);
  options.draws_thumbnails = !out.empty();
  CheckReport report;
  {
    const SignalRequests requests;
    options.wants_stop = SignalRequests::WantsStop;
    std::optional<ProgressBar> bar;
    size_t shown = 0;
    options.progress = [&](size_t source, int64_t done, int64_t total) {
      if (source != shown) bar.reset();
      shown = source;
      if (!bar) bar.emplace(ProgressMode::kAuto, "pictures", total);
      bar->Update(done, "");
    };
    report = CheckData(sources, options);
  }
  if (is_strict && report.exit_code == 0 && report.Count(Severity::kWarning) > 0) {
    report.exit_code = static_cast<int>(ErrorKind::kBadData);
    LogWarning(Counted(report.Count(Severity::kWarning), "warning", "warnings") + ", which --strict takes for errors");
  }
  const std::string json = !out.empty() || arguments.Has("json") ? CheckJson(report) : std::string();
  if (!out.empty()) {
    WriteFileAtomically(out / "check.json", json);
    WriteFileAtomically(out / "check.html", CheckPage(report));
    LogInfo(StrCat("wrote ", Printable((out / "check.html").string()), " and check.json"));
  }
  if (arguments.Has("json")) {
    PrintJsonText(json);
  } else {
    PrintReport(report);
  }
  return report.exit_code;
}

}  // namespace

Verb DataCheckVerb() {
  Verb verb;
  verb.name = "check";
  verb.under = "data";
  verb.summary = "look for what is wrong with pictures and labels (exit 65: training cannot start)";
  verb.usage = "SOURCE [SOURCE ..] [--flags]";
  verb.examples = {"moka data check flowers/train flowers/val --out report",
                   "moka data check coco:instances_val2017.json,val2017 --json", "moka data check data/flowers"};
  verb.operands = ImportSources();
  verb.operands.emplace_back("DATABASE", "what an import has made");
  verb.options = {{"out", "FOLDER", "write check.html (one page) and check.json there (default: nothing is written)"},
                  {"classes", "FILE", "names that number the classes of folders, one a line; or a database's"},
                  {"skip-bad", "", "what an import with --skip-bad leaves out is a warning"},
                  {"strict", "", "exit 65 for warnings, too"},
                  {"workers", "N", "threads that decode (default: --threads, else the cores)"},
                  {"json", "", "print all that was found as JSON"}};
  verb.run = RunCheck;
  return verb;
}

}  // namespace moka
