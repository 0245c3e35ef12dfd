// Gathers what is known of a run (its files, its curves, a test of its weights) and writes it twice.
#include "tools/report/run_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/records/class_names.h"
#include "optim/precision.h"
#include "optim/run/run_folder.h"
#include "proto/nets/model_card.h"
#include "tools/cli/version.h"
#include "tools/launch/command.h"
#include "tools/measure/auto_precision.h"
#include "tools/measure/machine.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/run_json.h"
#include "tools/nets/test_source.h"
#include "tools/nets/zoo_weights.h"
#include "tools/report/report_json.h"
#include "tools/report/report_page.h"
#include "tools/report/scored_blobs.h"
#include "tools/report/test_pass.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostPoints = 2000;  // of a curve: more are no more to the eye

std::string TextOf(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.is_null() ? std::string() : json.dump();
}

// The value of a key as a text; empty where there is none.
std::string TextAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? std::string() : TextOf(*found);
}

// The machine and precision of the report's test, where it has one.
void AddMachine(const CompileOptions& compile, ReportContent& content) {
  if (!content.pass) return;
  content.facts.emplace_back("tested on", StrCat(CpuName(), ", ", IsaName(), ", ", NameOf(compile.device), ", ",
                                                 ComputeName(compile.compute)));
}

void AddFacts(const fs::path& folder, const CompileOptions& compile, ReportContent& content) {
  const Json json = JsonObjectIn(folder / "run.json");
  const auto add = [&](const char* name, const std::string& text) {
    if (!text.empty()) content.facts.emplace_back(name, text);
  };
  std::vector<std::string> words = {"moka", "train"};
  if (const auto argv = json.find("argv"); argv != json.end() && argv->is_array()) {
    for (const Json& word : *argv) words.push_back(TextOf(word));
  }
  add("training", ShellLine(words));
  add("test", ShellLine({"moka", "test", folder.string()}));
  add("this page", ShellLine({"moka", "report", folder.string()}));
  add("weights", content.weights);
  add("version", StrCat("moka ", TextAt(json, "version"), content.pass ? StrCat("; report by ", Version()) : ""));
  add("started", TextAt(json, "created"));
  add("host", TextAt(json, "host"));
  add("seed", TextAt(json, "seed"));
  add("threads", TextAt(json, "threads"));
  add("ranks", TextAt(json, "ranks"));
  add("begun from", TextAt(json, "parent"));
  AddMachine(compile, content);
  const auto data = json.find("data");
  if (data == json.end() || !data->is_object()) return;
  for (const auto& [name, what] : data->items()) content.facts.emplace_back(StrCat("data ", name), TextOf(what));
}

// Every so many points of curves that have very many; the last one stays.
void Thin(std::vector<RunChart>& charts) {
  for (RunChart& chart : charts) {
    for (PlotSeries& series : chart.series) {
      const size_t stride = (series.points.size() + kMostPoints - 1) / kMostPoints;
      if (stride < 2) continue;
      std::vector<std::pair<double, double>> kept;
      for (size_t i = 0; i < series.points.size(); i += stride) kept.push_back(series.points[i]);
      if (kept.back() != series.points.back()) kept.push_back(series.points.back());
      series.points = std::move(kept);
      series.smoothing /= static_cast<double>(stride);
    }
  }
}

std::vector<std::string> NamesOfClasses(const fs::path& folder, const NetParameter& net) {
  std::error_code code;
  for (const fs::path& file : {folder / "labels.txt", folder / "config" / "labels.txt"}) {
    if (fs::exists(file, code)) return ReadNameLines(file);
  }
  const LayerParameter* data = DataLayerOf(net);
  return data == nullptr ? std::vector<std::string>{} : ClassNamesOf(*data, {});
}

void NameClasses(const std::vector<std::string>& names, ReportContent& content) {
  for (ReportClass& one : content.classes) {
    if (one.number < std::ssize(names)) one.name = names[static_cast<size_t>(one.number)];
  }
  for (ReportCurve& curve : content.curves) {
    if (curve.number) curve.name = ClassText(content, *curve.number);
  }
}

// Adds the numbers of the training's last test.
void AddLastTest(const fs::path& folder, ReportContent& content) {
  std::error_code code;
  if (!fs::exists(folder / "metrics.jsonl", code)) return;
  std::optional<MetricLine> last;
  for (MetricLine& line : ReadMetrics(folder)) {
    if (line.split == "test" && !line.metrics.empty()) last = std::move(line);
  }
  if (!last) {
    content.notes.emplace_back("No test of the training gave a number, and nothing was tested for this page.");
    return;
  }
  for (const auto& [name, value] : last->metrics) content.metrics.push_back({.name = name, .value = value});
  content.notes.push_back(StrCat("The numbers are those of the training's last test, at iteration ", last->iteration,
                                 "; nothing was tested for this page."));
}

void AddNotes(size_t nets, ReportContent& content) {
  if (nets > 1) content.notes.push_back(StrCat("The run has ", nets, " test nets; these are the first one's results."));
  if (!content.pass) return;
  if (content.task == "classification" && content.curve_samples < content.pass->samples) {
    content.notes.push_back(StrCat("Curves and average precisions are those of ", content.curve_samples,
                                   " samples, spread evenly over the test."));
  }
  if (content.cells_left_out > 0)
    content.notes.push_back(StrCat(content.cells_left_out, " of the rarest confusions are left out."));
}

// The thing that a report is of: a run, or a model's folder with the weights that it carries.
struct Reported {
  bool is_model = false;
  fs::path folder;
  std::string name;
};

// Errors: kNoInput where the word is neither.
Reported ReportedOf(const std::string& word, const fs::path& runs) {
  if (const std::optional<NamedRun> run = FindNamedRun(word, runs))
    return {false, run->folder, fs::weakly_canonical(run->folder).filename().string()};
  const std::optional<fs::path> model = ModelFolderOf(word);
  if (!model) throw NoRunError(word, runs);
  return {true, *model, fs::weakly_canonical(*model).filename().string()};
}

void AddModelFacts(const Reported& reported, const CompileOptions& compile, ReportContent& content) {
  const std::string word = StrCat(kZooWord, reported.name);
  content.facts = {{"test", ShellLine({"moka", "test", word})},
                   {"this page", ShellLine({"moka", "report", word})},
                   {"weights", content.weights},
                   {"version", StrCat("moka ", Version())}};
  AddMachine(compile, content);
}

}  // namespace

fs::path ReportPageOf(const fs::path& folder) { return folder / "report.html"; }

fs::path ReportFolderOf(const std::string& run, const RunReportOptions& options) {
  if (!options.out.empty()) return options.out;
  const Reported reported = ReportedOf(run, options.runs);
  return reported.is_model ? fs::path(StrCat(reported.name, "-report")) : reported.folder;
}

std::optional<ReportContent> WriteRunReport(const std::string& run, const RunReportOptions& options) {
  const Reported reported = ReportedOf(run, options.runs);
  const TestSource source = reported.is_model ? SourceOfModel(reported.folder) : SourceOfRun(run, options.runs);
  const fs::path& folder = reported.folder;
  ReportContent content;
  content.run = reported.name;
  const ModelCard card = ModelCardOf(reported.is_model ? folder : folder / "config");
  const std::vector<NetParameter> nets = ReadTestedNets(source, {}, {});
  const NetParameter& net = nets.at(0);
  content.net = net.name();
  if (!source.weights.empty()) content.weights = fs::path(source.weights).lexically_relative(folder).string();
  PassOptions pass{.compile = options.compile,
                   .rule = PrecisionRuleNamed(source.solver.ap_version()),
                   .batches = options.batches,
                   .task = card.task(),
                   .on_batch = options.on_batch};
  if (!source.weights.empty() && HasTestPass(net, card.task())) {
    SettleTestPrecision(options.is_precision_asked, source.solver, net, pass.compile);
    if (!AddTestPass(net, source.weights, pass, content)) return std::nullopt;
    NameClasses(NamesOfClasses(folder, net), content);
  } else if (!reported.is_model) {
    AddLastTest(folder, content);
  }
  if (!reported.is_model) content.charts = ChartsOfRun(folder);
  Thin(content.charts);
  AddNotes(nets.size(), content);
  reported.is_model ? AddModelFacts(reported, pass.compile, content) : AddFacts(folder, pass.compile, content);
  const fs::path out = ReportFolderOf(run, options);
  std::error_code code;
  fs::create_directories(out, code);  // what is wrong with it, writing tells
  const std::string json = ReportJson(content).dump(1, ' ', false, Json::error_handler_t::replace);
  WriteFileAtomically(out / "report.json", json + "\n");
  WriteFileAtomically(ReportPageOf(out), ReportPage(content));
  return content;
}

}  // namespace moka
