// A run's folder is read by its files: metrics.jsonl for tests and rates, status.json for the clock as a whole,
// run.json for sessions and for the training before it.
#include "tools/measure/accuracy_run.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/json_whole.h"
#include "core/text.h"
#include "optim/run/run_folder.h"
#include "optim/run/target.h"
#include "tools/nets/run_json.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<AccuracyEnd, std::string_view>, 4> kEnds = {{{AccuracyEnd::kOpen, "open"},
                                                                            {AccuracyEnd::kReached, "reached"},
                                                                            {AccuracyEnd::kMissed, "missed"},
                                                                            {AccuracyEnd::kDiverged, "diverged"}}};

// The number at a key; none where there is none.
std::optional<double> NumberAt(const Json& object, const std::string& key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  if (it == object.end() || !it->is_number()) return std::nullopt;
  return it->get<double>();
}

[[noreturn]] void RefuseOlder(const fs::path& folder, std::string_view what) {
  throw Error(
      ErrorKind::kBadData, {},
      StrCat(folder.string(), " ", what, ": the run was made by an older program, whose trainings had no clock"),
      "train it again with this one");
}

struct WholeClock {
  std::optional<double> init_s;
  std::optional<double> run_s;
};

WholeClock ClockOfStatus(const Json& status) {
  const auto it = status.find("clock");
  if (it == status.end()) return {};
  return {.init_s = NumberAt(*it, "init_s"), .run_s = NumberAt(*it, "run_s")};
}

std::optional<double> ValueOf(const MetricLine& line, const std::string& name) {
  const auto it = std::ranges::find_if(line.metrics, [&](const auto& metric) { return metric.first == name; });
  return it == line.metrics.end() ? std::nullopt : std::optional(it->second);
}

// Adds a test, unless the target was met before it.
void AddPoint(const AccuracyPoint& point, const AccuracyTarget& target, AccuracyRun& run) {
  if (run.end == AccuracyEnd::kReached) return;
  run.points.push_back(point);
  if (MeetsTarget(point.value, target.value, FallsToItsTarget(target.metric))) run.end = AccuracyEnd::kReached;
}

// Tests, and the rates of iterations.
void ReadLines(const fs::path& folder, const AccuracyTarget& target, double before_s, AccuracyRun& run) {
  std::error_code code;
  if (!fs::exists(folder / "metrics.jsonl", code)) return;
  double waited_s = 0;
  double waited_until_s = 0;
  int64_t last = 0;
  for (const MetricLine& line : ReadMetrics(folder)) {
    if (line.split != "train" && line.split != "test") continue;
    if (!line.clock_s) RefuseOlder(folder, "has lines of metrics.jsonl without clock_s");
    if (line.split == "test") {
      const std::optional<double> value = ValueOf(line, target.metric);
      if (!value) continue;
      AddPoint({.clock_s = before_s + *line.clock_s, .iteration = line.iteration, .epoch = line.epoch, .value = *value},
               target, run);
      continue;
    }
    // A line tells the mean over the iterations since the line before it.
    if (const std::optional<double> wait_ms = ValueOf(line, "input_wait_ms")) {
      waited_s += *wait_ms * 1e-3 * static_cast<double>(std::max<int64_t>(line.iteration - last, 1));
      waited_until_s = *line.clock_s;
    }
    last = line.iteration;
    if (const auto rate = ValueOf(line, "images_per_s"); rate && *rate > 0) run.training_images_per_s = rate;
  }
  if (waited_until_s > 0) run.input_wait = std::min(1.0, waited_s / waited_until_s);
}

// The seconds of the training that a run started from the weights of; 0 for one that started by itself.
double SecondsBefore(const Json& run_json) {
  const auto it = run_json.find("parent");
  if (it == run_json.end() || !it->is_string()) return 0;
  const auto parent = it->get<std::string>();
  const fs::path folder = parent.substr(0, parent.rfind('@'));
  const WholeClock clock = ClockOfStatus(JsonObjectIn(folder / "status.json"));
  if (!clock.run_s) RefuseOlder(folder, "has no clock in status.json");
  return *clock.run_s;
}

// A line of a peer. Errors: kBadData.
Json PeerLine(const std::string& row, const SourcePlace& place) {
  CheckJsonBounds(row, place.file);
  Json json = Json::parse(row, nullptr, false);
  if (json.is_object()) return json;
  throw Error(ErrorKind::kBadData, place, StrCat("a peer's line is no JSON object: \"", Printable(row), "\""));
}

}  // namespace

std::string AccuracyTarget::Text() const { return StrCat(metric, FallsToItsTarget(metric) ? " <= " : " >= ", value); }

std::string_view NameOf(AccuracyEnd end) {
  return std::ranges::find(kEnds, end, &decltype(kEnds)::value_type::first)->second;
}

const AccuracyPoint* LastPoint(const AccuracyRun& run) { return run.points.empty() ? nullptr : &run.points.back(); }

void ReadRunOfMoka(const fs::path& folder, int exit_code, const AccuracyTarget& target, AccuracyRun& run) {
  const Json run_json = JsonObjectIn(folder / "run.json");
  const Json status = JsonObjectIn(folder / "status.json");
  const WholeClock clock = ClockOfStatus(status);
  const double before_s = SecondsBefore(run_json);
  const bool has_diverged = exit_code == static_cast<int>(ErrorKind::kDiverged);
  if (!has_diverged && (!clock.init_s || !clock.run_s)) RefuseOlder(folder, "has no clock in status.json");
  run.place = folder.string();
  run.points.clear();
  run.end = AccuracyEnd::kOpen;
  ReadLines(folder, target, before_s, run);
  if (run.end == AccuracyEnd::kOpen) run.end = has_diverged ? AccuracyEnd::kDiverged : AccuracyEnd::kMissed;
  const AccuracyPoint* last = LastPoint(run);
  const bool is_reached = run.end == AccuracyEnd::kReached;
  run.clock_s = is_reached || !clock.run_s ? (last == nullptr ? 0 : last->clock_s) : before_s + *clock.run_s;
  run.init_s = clock.init_s;
  const int64_t iterations = is_reached ? last->iteration : JsonWholeOr<int64_t>(status, "iter", 0);
  const auto batch = static_cast<double>(JsonWholeOr<int64_t>(status, "batch", 0));
  const double seconds = run.clock_s - before_s;
  if (batch > 0 && seconds > 0) run.images_per_s = static_cast<double>(iterations) * batch / seconds;
  if (run_json.contains("sessions")) run.sessions = std::ssize(run_json["sessions"]);
  if (run_json.contains("version") && run_json["version"].is_string())
    run.version = StrCat("moka ", run_json["version"].get<std::string>());
}

void ReadRunOfPeer(const fs::path& file, const AccuracyTarget& target, AccuracyRun& run) {
  run.place = file.string();
  run.points.clear();
  run.end = AccuracyEnd::kOpen;
  Json last;
  SourcePlace place{.file = file.string(), .line = 0, .column = 1};
  for (const std::string& row : Split(ReadLinesFile(file), '\n')) {
    ++place.line;
    if (!row.starts_with("{")) continue;
    const Json json = PeerLine(row, place);
    if (json.contains("reached")) last = json;
    const std::optional<double> clock_s = NumberAt(json, "clock_s");
    if (!clock_s || !json.contains(target.metric)) continue;
    AddPoint({.clock_s = *clock_s,
              .iteration = JsonWholeOr<int64_t>(json, "iteration", 0),
              .epoch = NumberAt(json, "epoch").value_or(0),
              .value = NumberAt(json, target.metric).value_or(std::numeric_limits<double>::quiet_NaN())},
             target, run);
  }
  const bool says_end = last.is_object() && last["reached"].is_boolean();
  if (!says_end || run.points.empty()) {
    throw Error(
        ErrorKind::kBadData, {},
        StrCat(file.string(), says_end ? StrCat(" has no test of \"", Printable(target.metric), "\"")
                                       : std::string(" has no last line that says whether it reached the target")),
        "docs/time_to_accuracy.md says what a peer prints");
  }
  if (run.end == AccuracyEnd::kOpen) run.end = AccuracyEnd::kMissed;
  if (last["reached"].get<bool>() != (run.end == AccuracyEnd::kReached)) {
    throw Error(ErrorKind::kBadData, {},
                StrCat(file.string(), ": its last line contradicts its tests of ", Printable(target.Text())),
                "docs/time_to_accuracy.md says what a peer prints");
  }
  run.clock_s = run.points.back().clock_s;
  run.init_s = NumberAt(last, "init_s");
  run.images_per_s = NumberAt(last, "images_per_s");
  run.training_images_per_s = NumberAt(last, "training_images_per_s");
  run.input_wait = NumberAt(last, "input_wait");
  if (last.contains("version") && last["version"].is_string()) run.version = last["version"].get<std::string>();
}

Json JsonOfRun(const AccuracyRun& run) {
  Json json;
  json["setting"] = run.setting;
  json["seed"] = run.seed;
  json["run"] = run.place;
  json["outcome"] = NameOf(run.end);
  if (const AccuracyPoint* last = LastPoint(run)) {
    json["epochs"] = NumberOrNull<Json>(last->epoch);
    json["iterations"] = last->iteration;
    json["value"] = NumberOrNull<Json>(last->value);
  }
  json["clock_s"] = run.has_ended() ? NumberOrNull<Json>(run.clock_s) : Json();
  json["init_s"] = NumberOrNull<Json>(run.init_s);
  json["images_per_s"] = NumberOrNull<Json>(run.images_per_s);
  json["training_images_per_s"] = NumberOrNull<Json>(run.training_images_per_s);
  json["input_wait"] = NumberOrNull<Json>(run.input_wait);
  json["joules"] = NumberOrNull<Json>(run.joules);
  json["peak_bytes"] = run.peak_bytes > 0 ? Json(run.peak_bytes) : Json();
  json["sessions"] = run.sessions;
  json["version"] = run.version;
  json["points"] = Json::array();
  for (const AccuracyPoint& point : run.points) {
    json["points"].push_back({{"clock_s", point.clock_s},
                              {"iteration", point.iteration},
                              {"epoch", point.epoch},
                              {"value", NumberOrNull<Json>(point.value)}});
  }
  return json;
}

AccuracyRun RunOfJson(const Json& json) {
  AccuracyRun run;
  run.setting = json.at("setting").get<std::string>();
  run.seed = JsonWhole<int64_t>(json.at("seed"));
  run.place = json.at("run").get<std::string>();
  const auto end = json.at("outcome").get<std::string>();
  const auto* const known = std::ranges::find(kEnds, end, &decltype(kEnds)::value_type::second);
  if (known == kEnds.end()) throw Error(ErrorKind::kBadData, StrCat("no outcome is called \"", Printable(end), "\""));
  run.end = known->first;
  run.clock_s = NumberAt(json, "clock_s").value_or(0);
  run.init_s = NumberAt(json, "init_s");
  run.images_per_s = NumberAt(json, "images_per_s");
  run.training_images_per_s = NumberAt(json, "training_images_per_s");
  run.input_wait = NumberAt(json, "input_wait");
  run.joules = NumberAt(json, "joules");
  run.peak_bytes = json.at("peak_bytes").is_null() ? 0 : JsonWhole<int64_t>(json.at("peak_bytes"));
  run.sessions = JsonWhole<int64_t>(json.at("sessions"));
  run.version = json.at("version").get<std::string>();
  for (const Json& point : json.at("points")) {
    run.points.push_back({.clock_s = point.at("clock_s").get<double>(),
                          .iteration = JsonWhole<int64_t>(point.at("iteration")),
                          .epoch = point.at("epoch").get<double>(),
                          .value = NumberAt(point, "value").value_or(std::numeric_limits<double>::quiet_NaN())});
  }
  return run;
}

}  // namespace moka
