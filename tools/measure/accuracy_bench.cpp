// Runs are kept flat, in the order of turns; summaries are made of them anew whenever they are asked for.
#include "tools/measure/accuracy_bench.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/median.h"
#include "core/text.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "accuracy";

std::optional<Spread> SpreadOf(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return Spread{.median = Median(values), .min = std::ranges::min(values), .max = std::ranges::max(values)};
}

Json JsonOf(const std::optional<Spread>& spread) {
  if (!spread) return {};
  return {{"median", spread->median}, {"min", spread->min}, {"max", spread->max}};
}

Json JsonOf(const AccuracySummary& summary) {
  return {{"setting", summary.setting},
          {"runs", summary.runs},
          {"reached", summary.reached},
          {"diverged", summary.diverged},
          {"clock_s", JsonOf(summary.clock_s)},
          {"epochs", JsonOf(summary.epochs)},
          {"images_per_s", JsonOf(summary.images_per_s)},
          {"joules", JsonOf(summary.joules)},
          {"clock_ratio", JsonOf(summary.ratio)}};
}

AccuracySetting SettingOfJson(const Json& json) {
  return {.name = json.at("name").get<std::string>(),
          .model = json.at("model").get<std::string>(),
          .words = json.at("words").get<std::vector<std::string>>(),
          .is_peer = json.at("is_peer").get<bool>(),
          .config = json.at("config").get<std::string>()};
}

std::string WordsText(const AccuracySetting& setting) {
  const std::string words = Join(setting.words, " ");
  return setting.is_peer ? words : StrCat(setting.model, words.empty() ? "" : " ", words);
}

void AddDifference(const std::string& what, const std::string& before, const std::string& now,
                   std::vector<std::string>& differences) {
  if (before != now)
    differences.push_back(StrCat(what, " was \"", Printable(before), "\", is \"", Printable(now), "\""));
}

// The run of a setting with a seed among those of a bench, const or not; null if it was not begun.
template <class Runs>
auto FindRun(Runs& runs, const std::string& setting, int64_t seed) -> decltype(runs.data()) {
  const auto it =
      std::ranges::find_if(runs, [&](const AccuracyRun& run) { return run.setting == setting && run.seed == seed; });
  return it == runs.end() ? nullptr : &*it;
}

AccuracySummary SummaryOf(const AccuracyBench& bench, const AccuracySetting& setting) {
  AccuracySummary summary;
  summary.setting = setting.name;
  std::vector<double> clocks;
  std::vector<double> epochs;
  std::vector<double> rates;
  std::vector<double> joules;
  std::vector<double> ratios;
  const std::string& first = bench.settings.front().name;
  for (const AccuracyRun& run : bench.runs) {
    if (run.setting != setting.name || !run.has_ended()) continue;
    ++summary.runs;
    summary.diverged += run.end == AccuracyEnd::kDiverged ? 1 : 0;
    if (run.end != AccuracyEnd::kReached) continue;
    ++summary.reached;
    clocks.push_back(run.clock_s);
    epochs.push_back(run.points.back().epoch);
    if (run.images_per_s) rates.push_back(*run.images_per_s);
    if (run.joules) joules.push_back(*run.joules);
    const AccuracyRun* const beside = FindRun(bench.runs, first, run.seed);
    if (setting.name == first || beside == nullptr || beside->end != AccuracyEnd::kReached) continue;
    if (beside->clock_s > 0) ratios.push_back(run.clock_s / beside->clock_s);
  }
  summary.clock_s = SpreadOf(clocks);
  summary.epochs = SpreadOf(epochs);
  summary.images_per_s = SpreadOf(rates);
  summary.joules = SpreadOf(joules);
  summary.ratio = SpreadOf(ratios);
  return summary;
}

}  // namespace

AccuracyRun* AccuracyBench::Find(const std::string& setting, int64_t seed) { return FindRun(runs, setting, seed); }

std::vector<AccuracySummary> SummariesOf(const AccuracyBench& bench) {
  std::vector<AccuracySummary> summaries;
  for (const AccuracySetting& setting : bench.settings) summaries.push_back(SummaryOf(bench, setting));
  return summaries;
}

int ExitCodeOf(const AccuracyBench& bench) {
  const auto has = [&](AccuracyEnd end) {
    return std::ranges::any_of(bench.runs, [&](const AccuracyRun& run) { return run.end == end; });
  };
  if (has(AccuracyEnd::kDiverged)) return static_cast<int>(ErrorKind::kDiverged);
  return has(AccuracyEnd::kMissed) ? static_cast<int>(ErrorKind::kTargetMissed) : 0;
}

std::string AccuracyJson(const AccuracyBench& bench) {
  Json json;
  json["bench"] = kKind;
  json["version"] = bench.version;
  json["cpu"] = bench.cpu;
  json["target"] = {{"metric", bench.target.metric}, {"value", bench.target.value}};
  json["settings"] = Json::array();
  for (const AccuracySetting& setting : bench.settings) {
    json["settings"].push_back({{"name", setting.name},
                                {"model", setting.model},
                                {"words", setting.words},
                                {"is_peer", setting.is_peer},
                                {"config", setting.config}});
  }
  json["runs"] = Json::array();
  for (const AccuracyRun& run : bench.runs) json["runs"].push_back(JsonOfRun(run));
  json["summaries"] = Json::array();
  for (const AccuracySummary& summary : SummariesOf(bench)) json["summaries"].push_back(JsonOf(summary));
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

AccuracyBench ReadAccuracyBench(const std::filesystem::path& file) {
  const std::string text = ReadFile(file);
  CheckJsonBounds(text, file.string());
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("bench") || json["bench"] != kKind)
    throw Error(ErrorKind::kBadData, StrCat(file.string(), " is no file of moka bench accuracy"));
  AccuracyBench bench;
  try {
    bench.version = json.at("version").get<std::string>();
    bench.cpu = json.at("cpu").get<std::string>();
    bench.target = {.metric = json.at("target").at("metric").get<std::string>(),
                    .value = json.at("target").at("value").get<double>()};
    for (const Json& setting : json.at("settings")) bench.settings.push_back(SettingOfJson(setting));
    for (const Json& run : json.at("runs")) bench.runs.push_back(RunOfJson(run));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kBadData, StrCat(file.string(), ": ", Printable(error.what())));
  }
  return bench;
}

std::vector<std::string> DifferencesOf(const AccuracyBench& file, const AccuracyBench& asked) {
  std::vector<std::string> differences;
  AddDifference("the target", file.target.Text(), asked.target.Text(), differences);
  AddDifference("moka's version", file.version, asked.version, differences);
  AddDifference("the processor", file.cpu, asked.cpu, differences);
  const size_t shared = std::min(file.settings.size(), asked.settings.size());
  for (size_t i = 0; i < shared; ++i) {
    const AccuracySetting& before = file.settings[i];
    const AccuracySetting& now = asked.settings[i];
    const std::string what = StrCat("setting ", i + 1);
    AddDifference(StrCat(what, "'s name"), before.name, now.name, differences);
    AddDifference(what, WordsText(before), WordsText(now), differences);
    if (WordsText(before) == WordsText(now) && before.config != now.config)
      differences.push_back(StrCat("the solver or the nets of \"", Printable(now.name), "\" have changed"));
  }
  AddDifference("the number of settings", std::to_string(file.settings.size()), std::to_string(asked.settings.size()),
                differences);
  return differences;
}

}  // namespace moka
