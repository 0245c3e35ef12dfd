// A flag that stands for a field and an override of that field may agree; where they differ, both are named.
#include "tools/train/overrides.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "proto/text/overrides.h"

namespace moka {

namespace {

// Whether an override is of the solver's field, or of an element of it.
bool IsOfField(const std::string& text, std::string_view field) {
  const std::string_view path = PathOfOverride(text);
  return path.substr(0, path.find('[')) == field;
}

// Whether an override gives the solver's field one of the values, those that the flag stands for. Errors: kUsage where
// one gives it another.
bool RefuseOtherValues(const Arguments& arguments, const std::string& flag, std::string_view field,
                       const std::vector<std::string>& values) {
  bool is_said = false;
  for (const std::string& text : arguments.overrides) {
    if (!IsOfField(text, field)) continue;
    is_said = std::ranges::find(values, ValueOfOverride(text)) != values.end();
    if (is_said) continue;
    throw Error(ErrorKind::kUsage, {},
                StrCat("--", flag, "=", Printable(arguments.Get(flag)), " and ", Printable(text),
                       " set the same field, ", field),
                "leave one of them out");
  }
  return is_said;
}

// The number of the one GPU that --device=gpu:N or --gpu=N names; empty where the value names another device, the GPUs
// of several ranks or one by its place.
std::string NumberOfNamedGpu(std::string_view value) {
  if (value.starts_with("gpu:")) value.remove_prefix(4);
  const bool is_number = value.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? std::string(value) : std::string();
}

// Overrides of solver_mode and device_id beside a flag that says where to compute.
void CheckDeviceFields(const Arguments& arguments, const std::string& flag) {
  const std::string value = arguments.Get(flag);
  const bool is_cpu = value == "cpu";
  (void)RefuseOtherValues(arguments, flag, "solver_mode", {is_cpu ? "CPU" : "GPU", is_cpu ? "0" : "1"});
  if (const std::string number = NumberOfNamedGpu(value); !number.empty()) {
    (void)RefuseOtherValues(arguments, flag, "device_id", {number, StrCat("[", number, "]")});
    return;
  }
  for (const std::string& text : arguments.overrides) {
    if (!IsOfField(text, "device_id")) continue;
    LogWarning(
        StrCat(Printable(text), " has no use beside --", flag, "=", Printable(value), ", which says where to compute"));
  }
}

// A flag that stands for a field of the solver.
struct FlagField {
  const char* flag;
  const char* field;
  bool is_written;  // into the solver; else what the flag says is taken from the flag
};
constexpr std::array<FlagField, 7> kFlagFields = {{{.flag = "iterations", .field = "max_iter", .is_written = true},
                                                   {.flag = "precision", .field = "precision", .is_written = true},
                                                   {.flag = "seed", .field = "random_seed", .is_written = true},
                                                   {.flag = "threads", .field = "threads", .is_written = false},
                                                   {.flag = "recompute", .field = "recompute", .is_written = false},
                                                   {.flag = "max-time", .field = "max_time", .is_written = false},
                                                   {.flag = "weights", .field = "weights", .is_written = false}}};

}  // namespace

SplitOverrides SplitByTarget(const std::vector<std::string>& overrides) {
  SplitOverrides split;
  for (const std::string& text : overrides) {
    const size_t begin = text[0] == '+' || text[0] == '~' ? 1 : 0;
    const std::string sign = text.substr(0, begin);
    const std::string rest = text.substr(begin);
    if (rest.starts_with("solver.")) {
      split.solver.push_back(sign + rest.substr(7));
    } else if (rest.starts_with("net.")) {
      split.net.push_back(sign + rest.substr(4));
    } else if (SpeaksOfNet(rest)) {
      split.net.push_back(text);
    } else {
      split.solver.push_back(text);
    }
  }
  return split;
}

std::vector<std::string> NetOverridesOf(const Arguments& arguments, std::string_view verb) {
  SplitOverrides split = SplitByTarget(arguments.overrides);
  if (split.solver.empty()) return std::move(split.net);
  throw Error(ErrorKind::kUsage, {},
              StrCat("moka ", verb, " has no solver to set \"", Printable(split.solver.front()), "\" in"),
              "overrides speak of the net here: layer[NAME].field=value");
}

void RefuseBesideFlag(const std::vector<std::string>& overrides, const std::string& flag, const std::string& message,
                      const std::string& field) {
  for (const std::string& text : overrides) {
    if (text.starts_with("+")) continue;  // it adds, as the flag does
    const std::string_view path = PathOfOverride(text);
    const std::string whole = StrCat(message, ".", field);
    if (path != message && path != whole && !path.starts_with(whole + "[")) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, " and ", Printable(text), " set the same field, ", whole),
                "leave one of them out");
  }
}

NetState StateOfFlags(const Arguments& arguments, const std::string& message) {
  NetState state;
  for (const char* flag : {"stage", "level"}) {
    if (arguments.Has(flag)) RefuseBesideFlag(arguments.overrides, flag, message, flag);
  }
  if (arguments.Has("level")) state.set_level(static_cast<int>(arguments.Int("level", 0, INT32_MIN, INT32_MAX)));
  if (!arguments.Has("stage")) return state;
  for (const std::string& stage : Split(arguments.Get("stage"), ',')) state.add_stage(stage);
  return state;
}

std::vector<OptionSpec> StateOptionSpecs() {
  return {{"stage", "LIST", "stages for include/exclude rules"}, {"level", "N", "level for include/exclude rules"}};
}

std::vector<std::string> OverridesOf(const Arguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  // As Caffe: stages go behind those of the solver's file, a level takes the place of its level.
  const NetState state = StateOfFlags(arguments, "train_state");
  for (const std::string& stage : state.stage()) overrides.push_back(StrCat("+train_state.stage=", stage));
  if (state.has_level()) overrides.push_back(StrCat("train_state.level=", state.level()));
  for (const FlagField& one : kFlagFields) {
    if (!arguments.Has(one.flag)) continue;
    const std::string value = arguments.Get(one.flag);
    const bool is_said = RefuseOtherValues(arguments, one.flag, one.field, {value});
    if (one.is_written && !is_said) overrides.push_back(StrCat(one.field, "=", value));
  }
  for (const char* flag : {"device", "gpu"}) {
    if (arguments.Has(flag)) CheckDeviceFields(arguments, flag);
  }
  return overrides;
}

}  // namespace moka
