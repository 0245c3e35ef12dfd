// JSON is put together by hand, with the blanks that Python's writer leaves, so that a line looks as mllog's do.
#include "optim/run/mlperf_log.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.h"
#include "optim/run/run_records.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kToken = ":::MLLOG ";

std::string TextOf(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string TextOf(const MlperfValue& value) {
  struct Writer {
    Json operator()(std::monostate /*none*/) const { return {}; }
    Json operator()(bool flag) const { return flag; }
    Json operator()(int64_t number) const { return number; }
    Json operator()(double number) const { return number; }
    Json operator()(const std::string& text) const { return text; }
  };
  return TextOf(std::visit(Writer{}, value));
}

std::string Pair(std::string_view name, const std::string& text) {
  return StrCat(TextOf(Json(std::string(name))), ": ", text);
}

// The file as the repository names it, wherever it was compiled.
std::string FileOf(CodePlace where) {
  const std::string_view path = where.file;
  const size_t room = path.rfind("optim/run/");
  return std::string(room == std::string_view::npos ? path : path.substr(room));
}

// The iteration that a line was logged at; -1: the line is none of the loop's.
int64_t IterationOf(const Json& line) {
  if (!line.contains("metadata") || !line["metadata"].is_object()) return -1;
  const Json& metadata = line["metadata"];
  const auto it = metadata.find("iteration");
  return it != metadata.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
}

}  // namespace

void MlperfLog::Event(std::string_view key, const MlperfValue& value, const std::vector<MlperfField>& metadata,
                      CodePlace where) const {
  Write("POINT_IN_TIME", key, value, metadata, where);
}

void MlperfLog::Start(std::string_view key, const std::vector<MlperfField>& metadata, CodePlace where) const {
  Write("INTERVAL_START", key, {}, metadata, where);
}

void MlperfLog::End(std::string_view key, const std::vector<MlperfField>& metadata, CodePlace where) const {
  Write("INTERVAL_END", key, {}, metadata, where);
}

MlperfLog MlperfLog::At(int64_t time_ms) const {
  return {sink_, [time_ms] { return time_ms; }};
}

void MlperfLog::Write(std::string_view type, std::string_view key, const MlperfValue& value,
                      const std::vector<MlperfField>& metadata, CodePlace where) const {
  std::vector<std::string> more = {Pair("file", TextOf(Json(FileOf(where)))),
                                   Pair("lineno", std::to_string(where.line))};
  for (const MlperfField& field : metadata) more.push_back(Pair(field.name, TextOf(field.value)));
  const std::vector<std::string> parts = {Pair("namespace", "\"\""),
                                          Pair("time_ms", std::to_string(now_())),
                                          Pair("event_type", TextOf(Json(std::string(type)))),
                                          Pair("key", TextOf(Json(std::string(key)))),
                                          Pair("value", TextOf(value)),
                                          Pair("metadata", StrCat("{", Join(more, ", "), "}"))};
  sink_(StrCat(kToken, "{", Join(parts, ", "), "}"));
}

ResumedMlperfLog ResumeMlperfLog(std::string_view text, int64_t iteration, bool keeps_tests) {
  ResumedMlperfLog resumed;
  for (const std::string& line : Split(text, '\n')) {
    if (!line.starts_with(kToken)) continue;
    const Json json = RecordOf(std::string_view(line).substr(kToken.size()));
    if (!json.is_object() || !json.contains("key") || !json["key"].is_string()) break;
    const auto key = json["key"].get<std::string>();
    const int64_t at = IterationOf(json);
    const bool is_test = key.starts_with("eval_") && key != "eval_samples";
    if (key == "run_stop" || at > iteration || (is_test && at == iteration && !keeps_tests)) break;
    resumed.has_started = resumed.has_started || key == "run_start";
    if (key == "block_start" || key == "epoch_start") resumed.open_since = at;
    if (key == "block_stop" || key == "epoch_stop") resumed.open_since.reset();
    resumed.text += line + "\n";
  }
  return resumed;
}

}  // namespace moka
