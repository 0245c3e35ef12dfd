// One pass over the lines keeps the state that rules of order need; the other rules look at one key's lines together.
#include "tests/tools/mlperf/mlperf_rules.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/text.h"

namespace moka {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kToken = ":::MLLOG ";

struct Line {
  double time_ms = 0;
  std::string key;
  Json value;
  Json metadata;

  bool Has(const char* field) const { return metadata.is_object() && metadata.contains(field); }
  double Number(const char* field) const { return metadata.at(field).get<double>(); }
};

using Test = std::function<bool(const Line&)>;

bool IsNumber(const Line& line) { return line.value.is_number(); }
double NumberOf(const Line& line) { return line.value.get<double>(); }
bool IsWhole(double value) { return std::abs(std::round(value) - value) < 1e-5; }
bool IsGiven(const Line& line) { return line.value != ""; }
Test IsOneOf(std::set<std::string> words) {
  return [words = std::move(words)](const Line& line) {
    return line.value.is_string() && words.contains(line.value.get<std::string>());
  };
}
Test Is(double wanted) {
  return [wanted](const Line& line) { return IsNumber(line) && NumberOf(line) == wanted; };
}
bool IsPositive(const Line& line) { return IsNumber(line) && NumberOf(line) > 0; }
bool IsNotNegative(const Line& line) { return IsNumber(line) && NumberOf(line) >= 0; }
bool IsDecay(const Line& line) { return IsPositive(line) && IsWhole(std::log2(NumberOf(line) / 0.0001)); }
bool HasEpochOrSamples(const Line& line) { return line.Has("epoch_num") || line.Has("samples_count"); }

class Checker {
 public:
  explicit Checker(MlperfRuleset ruleset) : ruleset_(ruleset) {}

  std::vector<std::string> Check(const std::string& log) {
    Parse(log);
    CheckOrder();
    CheckCommon();
    const std::string division = WordOf("submission_division");
    const std::string benchmark = WordOf("submission_benchmark");
    Once("submission_benchmark", IsOneOf({"resnet", "ssd", "stable_diffusion", "maskrcnn", "gpt3", "dlrm_dcnv2", "bert",
                                          "rnnt", "unet3d", "gnn", division == "closed" ? "llama2_70b_lora" : "gnn"}));
    if (division == "closed") Once("gradient_accumulation_steps", IsPositive);
    CheckBenchmark(division, benchmark);
    return complaints_;
  }

 private:
  void Complain(const std::string& key, const std::string& text) { complaints_.push_back(StrCat(key, ": ", text)); }

  void Parse(const std::string& log) {
    for (const std::string& text : Split(log, '\n')) {
      const size_t token = text.rfind(kToken);
      if (token == std::string::npos) continue;
      const Json json = Json::parse(text.substr(token + kToken.size()), nullptr, false);
      const bool is_line = json.is_object() && json.contains("time_ms") && json["time_ms"].is_number() &&
                           json.contains("key") && json["key"].is_string() && json.contains("value") &&
                           json.contains("metadata");
      if (!is_line) {
        Complain("parser", StrCat("no line of a log: ", text));
        continue;
      }
      lines_.push_back({json["time_ms"], json["key"], json["value"], json["metadata"]});
    }
    if (lines_.empty()) Complain("parser", "no lines");
  }

  // The start-up, the run, and what is inside them.
  void CheckOrder() {
    bool has_init = false;
    bool has_inited = false;
    bool has_run = false;
    double first_init_ms = 0;
    double most_minutes = 0;  // until the division is known
    for (const Line& line : lines_) {
      const auto expect = [&](bool holds, const char* text) {
        if (!holds) Complain(line.key, text);
      };
      if (line.key == "submission_division") most_minutes = line.value == "open" ? 240 : 30;
      if (line.key == "init_start") {
        expect(!has_inited && !has_run, "comes behind init_stop or run_start");
        first_init_ms = has_init ? std::min(first_init_ms, line.time_ms) : line.time_ms;
        has_init = true;
      } else if (line.key == "init_stop") {
        expect(has_init, "comes before init_start");
        expect(!has_run, "comes behind run_start");
        expect(line.time_ms - first_init_ms < most_minutes * 60e3, "the start-up took too long");
        has_inited = true;
      } else if (line.key == "run_start") {
        expect(has_inited, "comes before init_stop");
        has_run = true;
      } else if (line.key == "run_stop") {
        expect(has_run, "comes before run_start");
      } else if (line.key == "block_start") {
        expect(has_run, "comes before run_start");
      }
    }
  }

  void CheckCommon() {
    Once("submission_org", IsGiven);
    Once("submission_platform", IsGiven);
    Once("submission_division", IsOneOf({"closed", "open"}));
    if (ruleset_ == MlperfRuleset::k400) Once("submission_status", IsOneOf({"cloud", "onprem", "preview", "research"}));
    AtLeastOnce({"cache_clear"});
    AtLeastOnce({"init_start"});
    Once("init_stop");
    Once("run_start");
    Once("run_stop", [](const Line& line) { return line.Has("status"); });
    AtLeastOnce({"block_start", "epoch_start"});
    AtLeastOnce({"block_stop", "epoch_stop"});
    AtLeastOnce({"eval_start", "block_start"});
    AtLeastOnce({"eval_stop", "block_stop"});
    Each("block_start", [](const Line& line) {
      if (!line.Has("epoch_count")) return line.Has("samples_count") && line.Number("samples_count") >= 0;
      return line.Number("epoch_count") > 0 && line.Has("first_epoch_num") &&
             (!line.Has("samples_count") || line.Number("samples_count") >= 0);
    });
    Each("block_stop", [](const Line& line) { return line.Has("first_epoch_num") || line.Has("samples_count"); });
    Each("epoch_start", [](const Line& line) { return line.Has("epoch_num"); });
    Each("epoch_stop", [](const Line& line) { return line.Has("epoch_num"); });
    Each("eval_start", HasEpochOrSamples);
    Each("eval_stop", HasEpochOrSamples);
    AtLeastOnce({"eval_accuracy"});
    Once("train_samples", IsGiven);
    Once("eval_samples", IsGiven);
  }

  void CheckBenchmark(const std::string& division, const std::string& benchmark) {
    const bool is_closed = division == "closed";
    if (benchmark == "resnet" && ruleset_ == MlperfRuleset::k400) {
      CheckAccuracy(is_closed ? 0.759 : -HUGE_VAL);
      if (is_closed) CheckClosedResnet();
    } else if (benchmark == "ssd") {
      CheckAccuracy(is_closed ? 0.34 : -HUGE_VAL);
      if (is_closed) CheckClosedSsd();
    } else {
      Complain("submission_benchmark", "has no rules here");
    }
  }

  void CheckAccuracy(double least) {
    Each("eval_accuracy", [](const Line& line) { return line.Has("epoch_num"); });
    const auto is_good = [&](const Line& line) {
      return IsNumber(line) && NumberOf(line) >= least && NumberOf(line) < 1;
    };
    if (std::ranges::none_of(Of("eval_accuracy"), is_good)) Complain("eval_accuracy", "no test reached the quality");
  }

  void CheckClosedResnet() {
    Once("global_batch_size", IsPositive);
    Once("opt_name", IsOneOf({"sgd", "lars"}));
    if (WordOf("opt_name") == "lars") {
      Once("lars_opt_base_learning_rate");
      Once("lars_opt_end_learning_rate", Is(0.0001));
      Once("lars_opt_learning_rate_decay_poly_power", Is(2));
      Once("lars_opt_learning_rate_decay_steps");
      Once("lars_epsilon", Is(0));
      Once("lars_opt_learning_rate_warmup_epochs");
      Once("lars_opt_momentum");
      Once("lars_opt_weight_decay", IsDecay);
    } else {
      Once("sgd_opt_base_learning_rate",
           [](const Line& line) { return IsNumber(line) && IsWhole(NumberOf(line) / 0.001); });
      Once("sgd_opt_end_learning_rate", Is(0.0001));
      Once("sgd_opt_learning_rate_decay_poly_power");
      Once("sgd_opt_learning_rate_decay_steps");
      Once("sgd_opt_weight_decay", IsDecay);
      Once("sgd_opt_momentum");
      Once("model_bn_span");
      Once("opt_learning_rate_warmup_epochs");
    }
  }

  void CheckClosedSsd() {
    Once("global_batch_size");
    Once("opt_name", IsOneOf({"adam"}));
    Once("opt_base_learning_rate", IsNotNegative);
    Once("opt_weight_decay", Is(0));
    Once("opt_learning_rate_warmup_epochs", IsNotNegative);
    Once("opt_learning_rate_warmup_factor", IsNotNegative);
  }

  std::vector<Line> Of(const std::string& key) const {
    std::vector<Line> lines;
    std::ranges::copy_if(lines_, std::back_inserter(lines), [&](const Line& line) { return line.key == key; });
    return lines;
  }
  std::string WordOf(const std::string& key) const {
    const std::vector<Line> lines = Of(key);
    return lines.empty() || !lines[0].value.is_string() ? std::string() : lines[0].value.get<std::string>();
  }
  void Each(const std::string& key, const Test& test) {
    const std::vector<Line> lines = Of(key);
    if (!std::ranges::all_of(lines, test)) Complain(key, "a line of it breaks its rule");
  }
  void Once(const std::string& key, const Test& test = {}) {
    if (const size_t count = Of(key).size(); count != 1) Complain(key, StrCat("is there ", count, " times"));
    if (test) Each(key, test);
  }
  // At least one of the keys.
  void AtLeastOnce(const std::vector<std::string>& keys) {
    if (std::ranges::all_of(keys, [&](const std::string& key) { return Of(key).empty(); }))
      Complain(keys[0], "is not there");
  }

  MlperfRuleset ruleset_;
  std::vector<Line> lines_;
  std::vector<std::string> complaints_;
};

std::vector<Json> LinesOf(const std::string& log, const std::string& key) {
  std::vector<Json> lines;
  for (const std::string& text : Split(log, '\n')) {
    if (!text.starts_with(kToken)) continue;
    Json json = Json::parse(text.substr(kToken.size()));
    if (json.at("key") == key) lines.push_back(std::move(json));
  }
  return lines;
}

}  // namespace

std::vector<std::string> MlperfComplaints(const std::string& log, MlperfRuleset ruleset) {
  return Checker(ruleset).Check(log);
}

std::vector<std::string> MlperfValues(const std::string& log, const std::string& key) {
  std::vector<std::string> values;
  for (const Json& line : LinesOf(log, key)) values.push_back(line.at("value").dump());
  return values;
}

std::vector<std::string> MlperfMetadata(const std::string& log, const std::string& key, const std::string& field) {
  std::vector<std::string> values;
  for (const Json& line : LinesOf(log, key)) values.push_back(line.at("metadata").at(field).dump());
  return values;
}

}  // namespace moka
