// Checks lines as JSON with the keys that they should have; only the last may be cut.
#include "optim/run/run_records.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/log.h"
#include "core/text.h"
#include "optim/run/scaling_baseline.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kTold = 8;  // lines of a file; more of them are counted

bool IsMetric(std::string_view line) {
  const nlohmann::ordered_json json = RecordOf(line);
  return json.is_object() && json.contains("iter") && json["iter"].is_number_integer() &&
         (json.contains("event") || (json.contains("split") && json["split"].is_string()));
}

bool IsScaling(std::string_view line) { return RecordOf(line).is_object(); }

// Tells the lines of a file that are not what they should be. The last one may be cut.
template <class IsRecord>
void TellLines(const fs::path& file, std::string_view text, IsRecord&& is_record) {
  int64_t bad = 0;
  int line_number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // cut by a kill
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++line_number;
    // Sessions of earlier versions ended the line that a kill had cut, and began another: that of a resume.
    const bool was_cut = text.starts_with("{\"event\":\"resume");
    if (line.empty() || was_cut || is_record(line, line_number)) continue;
    if (++bad > kTold) continue;
    LogWarning(StrCat(SourcePlace{.file = file.string(), .line = line_number, .column = 1}.ToString(),
                      ": this line is no record of the run and is left out: \"", Printable(line.substr(0, 60)), "\""));
  }
  if (bad > kTold) LogWarning(StrCat(file.string(), ": ", bad - kTold, " more lines are no records"));
}

bool IsThere(const fs::path& file) {
  std::error_code code;
  return fs::exists(fs::symlink_status(file, code));
}

void TellMissing(const fs::path& file, std::string_view what) {
  LogWarning(StrCat(file.string(), " is gone: ", what, " before this start are lost"));
}

void TellResults(const fs::path& file) {
  const std::string text = ReadLinesFile(file);
  const std::string_view header = std::string_view(text).substr(0, text.find('\n'));
  if (header != "iter,epoch" && !header.starts_with("iter,epoch,")) {
    const fs::path aside = file.string() + ".refused";
    std::error_code code;
    fs::rename(file, aside, code);
    if (code) throw Error(ErrorKind::kIo, StrCat("cannot rename ", file.string(), ": ", code.message()));
    LogWarning(StrCat(file.string(), ":1:1: expected the header \"iter,epoch,...\", found \"",
                      Printable(header.substr(0, 60)), "\": the file is now ", aside.string(), ", a new one begins"));
    return;
  }
  const auto cells = std::ranges::count(header, ',');
  TellLines(file, text, [&](std::string_view line, int number) { return number == 1 || IsResultRow(line, cells); });
}

}  // namespace

nlohmann::ordered_json ReadRunJson(const fs::path& run) {
  constexpr int64_t kLimitBytes = int64_t{16} << 20;
  const fs::path file = run / "run.json";
  const std::string bytes = ReadFile(file, kLimitBytes);
  CheckJsonBounds(bytes, file.string());
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(bytes, nullptr, false);
  if (json.is_object()) return json;
  throw Error(ErrorKind::kBadData, StrCat(file.string(), " is not a run's identity (no JSON object)"));
}

nlohmann::ordered_json RecordOf(std::string_view line) {
  try {
    CheckJsonBounds(line, {});
  } catch (const Error&) {
    return {};
  }
  return nlohmann::ordered_json::parse(line, nullptr, false);
}

bool IsResultRow(std::string_view line, int64_t commas) {
  int64_t iteration = -1;
  const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), iteration);
  const bool has_iteration = code == std::errc() && iteration >= 0 && end != line.data() + line.size() && *end == ',';
  return has_iteration && std::ranges::count(line, ',') == commas;
}

void TellBrokenRecords(const fs::path& run, int64_t iteration) {
  const fs::path metrics = run / "metrics.jsonl";
  const fs::path scaling = run / kScalingFile;
  const fs::path results = run / "results.csv";
  bool has_tests = false;
  if (IsThere(metrics)) {
    TellLines(metrics, ReadLinesFile(metrics, {.bytes = kRecordsLimitBytes}), [&](std::string_view line, int) {
      has_tests = has_tests || line.find("\"split\":\"test\"") != std::string_view::npos;
      return IsMetric(line);
    });
  } else if (iteration > 0) {
    TellMissing(metrics, "the numbers");
  }
  if (IsThere(scaling)) {
    TellLines(scaling, ReadLinesFile(scaling, {.bytes = kRecordsLimitBytes}),
              [](std::string_view line, int) { return IsScaling(line); });
  }
  if (IsThere(results)) {
    TellResults(results);
  } else if (has_tests) {
    TellMissing(results, "its rows of the tests");
  }
}

}  // namespace moka
