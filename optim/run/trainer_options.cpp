// Compares the texts of solver and net with the checkpoint's, line by line, without the fields that change only the
// length or the words of a run.
#include "optim/run/trainer_options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"
#include "layers/net/named_layers.h"
#include "proto/nets/net_file.h"
#include "proto/nets/solver_file.h"

namespace moka {
namespace {

// Fields that do not change what is computed from here on, or only how long.
const std::vector<std::string>& FreeFields() {
  static const std::vector<std::string> kFields = {"max_iter",
                                                   "max_epochs",
                                                   "display",
                                                   "test_interval",
                                                   "test_initialization",
                                                   "snapshot",
                                                   "snapshot_prefix",
                                                   "snapshot_diff",
                                                   "snapshot_format",
                                                   "snapshot_after_train",
                                                   "solver_mode",
                                                   "device_id",
                                                   "debug_info",
                                                   "keep_last",
                                                   "keep_best",
                                                   "max_time",
                                                   "threads",
                                                   "recompute",  // the same bits (graph/passes/recompute.cpp)
                                                   "weights",
                                                   "origin",
                                                   "layer_wise_reduce",
                                                   "test_compute_loss",
                                                   "eval_type",
                                                   "ap_version",
                                                   "show_per_class_result",
                                                   "sample_grid",
                                                   "noise_scale_interval",  // a readout, as the next one
                                                   "noise_scale_decay"};
  return kFields;
}

// MLPerf's log has told how long the training is, and its intervals follow the tests.
bool IsLogged(const std::string& field, const SolverParameter& solver) {
  return solver.has_mlperf() && (field == "test_interval" || field == "max_iter" || field == "max_epochs");
}

std::vector<std::string> LinesOf(SolverParameter solver) {
  for (const std::string& field : FreeFields()) {
    if (IsLogged(field, solver)) continue;
    const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
    Require(descriptor != nullptr, StrCat("SolverParameter has a field ", field));
    solver.GetReflection()->ClearField(&solver, descriptor);
  }
  if (solver.iter_size() == 1) solver.clear_iter_size();  // said or not
  // How sums travel, not what they are.
  if (solver.has_distributed()) {
    DistributedParameter& distributed = *solver.mutable_distributed();
    distributed.clear_algorithm();
    distributed.clear_fusion();
    distributed.clear_bucket_bytes();
    distributed.clear_deadline_s();
    distributed.clear_shard_updates();
    if (distributed.ByteSizeLong() == 0) solver.clear_distributed();
  }
  return Split(SolverToText(solver), '\n');
}

// Lines only in one of two texts, as `was "a", is "b"`; at most a handful.
std::string Differences(const std::vector<std::string>& before, const std::vector<std::string>& after) {
  constexpr size_t kMost = 8;
  std::map<std::string, int> count;
  for (const std::string& line : before) --count[line];
  for (const std::string& line : after) ++count[line];
  const auto only = [&](const std::vector<std::string>& lines, int sign) {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (count[line] * sign > 0 && std::ranges::find(found, std::string(Trim(line))) == found.end()) {
        found.emplace_back(Trim(line));
      }
    }
    return found.empty() ? std::string("(nothing)") : SomeOf(std::move(found), kMost);
  };
  return StrCat("was ", only(before, -1), "; is ", only(after, 1));
}

// The text of a checkpoint's net as this Moka would have written it. Earlier ones left layers without names where
// several ranks trained, and wrote sync_ranks: 1 in place of the net's own number where one did.
std::string AsWrittenNow(const std::string& net_text, const std::string& file, const NetParameter& net) {
  if (net_text.empty()) return net_text;
  NetParameter old = NetFromText(net_text, file);
  NameLayers(old);
  if (old.layer_size() != net.layer_size()) return net_text;
  for (int i = 0; i < old.layer_size(); ++i) {
    if (!old.layer(i).has_batch_norm_param()) continue;
    BatchNormParameter& norm = *old.mutable_layer(i)->mutable_batch_norm_param();
    const BatchNormParameter& now = net.layer(i).batch_norm_param();
    if (norm.has_sync_ranks() && norm.sync_ranks() == 1 && now.has_sync_ranks()) norm.set_sync_ranks(now.sync_ranks());
  }
  return NetToText(old);
}

[[noreturn]] void RefuseDuration(std::string_view text) {
  throw Error(ErrorKind::kUsage,
              StrCat("\"", Printable(text), "\" is no duration; write 90s, 30m, 12h, 2d or hours:minutes:seconds"));
}

// A number of at least 0 that takes the whole text.
double WholeNumber(std::string_view part, std::string_view text) {
  const std::string copy(part);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  const bool is_plain = std::ranges::all_of(copy, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  if (copy.empty() || !is_plain || *end != '\0' || !std::isfinite(value)) RefuseDuration(text);
  return value;
}

double SecondsOf(std::string_view text) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 86400;
  const std::string_view trimmed = Trim(text);
  if (trimmed.empty()) RefuseDuration(text);
  const std::vector<std::string> parts = Split(trimmed, ':');
  if (parts.size() == 2 || parts.size() == 3) {
    double seconds = 0;
    for (const std::string& part : parts) seconds = seconds * kMinute + WholeNumber(part, text);
    return seconds;
  }
  if (parts.size() > 3) RefuseDuration(text);
  const std::map<char, double> units = {{'s', 1}, {'m', kMinute}, {'h', kHour}, {'d', kDay}};
  const auto unit = units.find(trimmed.back());
  if (unit == units.end()) return WholeNumber(trimmed, text);
  return WholeNumber(trimmed.substr(0, trimmed.size() - 1), text) * unit->second;
}

}  // namespace

std::string_view Describe(TrainEnd end) {
  switch (end) {
    case TrainEnd::kFinished: return "finished";
    case TrainEnd::kTargetReached: return "target reached";
    case TrainEnd::kStoppedEarly: return "stopped early: no better test for a while";
    case TrainEnd::kTargetMissed: return "finished without reaching the target";
    case TrainEnd::kInterrupted: return "interrupted";
    case TrainEnd::kTimeUp: return "time is up";
  }
  return "ended";
}

int TrainResult::exit_code() const {
  switch (end) {
    case TrainEnd::kTargetMissed: return static_cast<int>(ErrorKind::kTargetMissed);
    case TrainEnd::kInterrupted:
    case TrainEnd::kTimeUp: return static_cast<int>(ErrorKind::kInterrupted);
    default: return 0;
  }
}

double ParseDuration(std::string_view text) {
  const double seconds = SecondsOf(text);
  if (seconds > 0) return seconds;
  throw Error(ErrorKind::kUsage, {}, StrCat("\"", Printable(text), "\" leaves no time to train in"),
              "without a limit it trains to its end");
}

void CheckResume(const Checkpoint& checkpoint, const SolverParameter& solver, const NetParameter& net) {
  const std::string file = checkpoint.path.string() + ".state";
  const SolverParameter old_solver = SolverFromText(checkpoint.solver_text, file);
  const std::string hint =
      "only its length and when it tests, displays and saves may change on resume; to change more, fork: "
      "train --from the checkpoint";
  const std::vector<std::string> before = LinesOf(old_solver);
  const std::vector<std::string> after = LinesOf(solver);
  if (before != after) {
    throw Error(
        ErrorKind::kUsage, SourcePlace{},
        StrCat("the solver changed since ", checkpoint.path.filename().string(), ": ", Differences(before, after)),
        hint);
  }
  const std::string net_text = NetToText(net);
  if (net_text == checkpoint.net_text || net_text == AsWrittenNow(checkpoint.net_text, file, net)) return;
  throw Error(ErrorKind::kUsage, SourcePlace{},
              StrCat("the train net changed since ", checkpoint.path.filename().string(), ": ",
                     Differences(Split(checkpoint.net_text, '\n'), Split(net_text, '\n'))),
              hint);
}

}  // namespace moka
