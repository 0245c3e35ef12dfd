// A table names, for each field that is not read by every training, what makes it read; rows of optimisers and policies
// add their own.
#include "optim/optimizers/solver_fields.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/text.h"
#include "optim/optimizers/lr_policies.h"
#include "optim/optimizers/lr_policy.h"
#include "optim/optimizers/optimizer.h"
#include "proto/text/places.h"

namespace moka {
namespace {

using Field = google::protobuf::FieldDescriptor;

constexpr double kInt = std::numeric_limits<int32_t>::max();
constexpr double kInt64 = 0x1p63;
constexpr double kFloat = std::numeric_limits<float>::max();
constexpr double kBelow1 = 1 - 1e-7;

// A field that takes part only together with others.
struct Reader {
  std::string field;
  bool (*is_read)(const SolverParameter&);
  std::string text;                         // what reads it
  bool SolverContext::*is_there = nullptr;  // besides
};

bool HasTests(const SolverParameter& s) {
  return std::ranges::any_of(s.test_iter(), [](int batches) { return batches > 0; });
}
bool HasPrefix(const SolverParameter& s) { return s.has_snapshot_prefix(); }
bool HasTarget(const SolverParameter& s) { return s.has_target_metric(); }
bool HasDecay(const SolverParameter& s) {
  return s.weight_decay() != 0 || s.weight_decay_policy() != "fixed" || s.turn_size() > 0;
}
bool HasMomentumCurve(const SolverParameter& s) { return s.momentum_policy() != "fixed"; }
bool MomentumIsGiven(const SolverParameter& s) { return s.momentum_policy() != "opt"; }
bool HasMomentumPoly(const SolverParameter& s) { return s.momentum_policy() == "poly"; }
bool HasDecayCurve(const SolverParameter& s) { return s.weight_decay_policy() != "fixed"; }
bool WarmsUp(const SolverParameter& s) { return s.warmup_iter() > 0; }
bool RampsUp(const SolverParameter& s) { return s.rampup_interval() > 0; }
bool RateFalls(const SolverParameter& s) { return s.lr_policy() != "fixed" || RampsUp(s); }
bool RateStartsAtBase(const SolverParameter& s) { return s.lr_policy() != "multifixed" || WarmsUp(s) || RampsUp(s); }
bool HasLarc(const SolverParameter& s) { return s.larc(); }
bool HasLocalRates(const SolverParameter& s) { return s.local_lr_auto(); }
bool HasNoiseScale(const SolverParameter& s) { return s.noise_scale_interval() > 0; }
bool HasFirstTest(const SolverParameter& s) { return TestsNet(s, 0); }
bool HasDetection(const SolverParameter& s) { return HasTests(s) && s.eval_type() == "detection"; }
bool IsOfKnownType(const SolverParameter& s) {
  return s.solver_data_type() == FLOAT || s.solver_data_type() == FLOAT16;
}
bool AlwaysReads(const SolverParameter& /*s*/) { return true; }
bool NeverReads(const SolverParameter& /*s*/) { return false; }

bool IsIn(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool IsReadByOptimizer(const std::string& type, const std::string& field) {
  const Optimizer* optimizer = FindOptimizer(type);
  return optimizer != nullptr && IsIn(optimizer->fields, field);
}

// Whether one of a training's optimisers, the turns' too, or its policy of the rate reads the field by itself.
bool IsReadByRows(const SolverParameter& s, const std::string& field) {
  const LrPolicy* policy = FindLrPolicy(s.lr_policy());
  return (policy != nullptr && IsIn(policy->reads, field)) || IsReadByOptimizer(s.type(), field) ||
         std::ranges::any_of(s.turn(), [&](const TrainTurn& turn) { return IsReadByOptimizer(turn.type(), field); });
}

// "Adam, AdamW or LAMB". Requires: some names.
std::string Alternatives(std::vector<std::string> names) {
  const std::string last = std::move(names.back());
  names.pop_back();
  return names.empty() ? last : StrCat(Join(names, ", "), " or ", last);
}

// Returns, by field, the text of what reads the fields that optimisers' and policies' rows name.
std::map<std::string, std::string> RowReaders() {
  std::map<std::string, std::vector<std::string>> types;
  std::map<std::string, std::vector<std::string>> policies;
  for (const Optimizer& optimizer : Optimizers()) {
    for (const std::string& field : optimizer.fields) types[field].push_back(optimizer.name);
  }
  for (const std::string& name : LrPolicies()) {
    for (const std::string& field : FindLrPolicy(name)->reads) policies[field].push_back(name);
  }
  std::map<std::string, std::string> readers;
  for (const auto& [field, names] : types) readers[field] = StrCat("type ", Alternatives(names));
  for (const auto& [field, names] : policies) {
    std::string& reader = readers[field];
    reader += StrCat(reader.empty() ? "" : ", or ", "lr_policy ", Alternatives(names));
  }
  return readers;
}

const std::vector<Reader>& Readers() {
  static const std::string kIgnored = "nothing here: it is read and ignored";
  static const std::vector<Reader> kReaders = {
      {"min_lr", RateFalls, "an lr_policy other than fixed, or a ramp"},
      {"warmup_start_lr", WarmsUp, "a warm-up, warmup_iter above 0"},
      {"rampup_lr", RampsUp, "a ramp, rampup_interval above 0"},
      {"larc_policy", HasLarc, "larc: true"},
      {"larc_eta", HasLarc, "larc: true"},
      {"local_gw_ratio", HasLocalRates, "local_lr_auto: true"},
      {"max_momentum", HasMomentumCurve, "momentum_policy poly or opt"},
      {"momentum", MomentumIsGiven, "a momentum_policy other than opt, which takes it from the rate"},
      {"momentum_power", HasMomentumPoly, "momentum_policy poly"},
      {"base_lr", RateStartsAtBase, "an lr_policy other than multifixed, or a warm-up or ramp that leads to it"},
      {"weight_decay_power", HasDecayCurve, "weight_decay_policy poly"},
      {"max_weight_decay", HasDecayCurve, "weight_decay_policy poly"},
      {"regularization_type", HasDecay, "a weight_decay above 0"},
      {"keep_best", HasFirstTest, "the first test net, which test_iter counts"},
      {"noise_scale_decay", HasNoiseScale, "a noise_scale_interval above 0"},
      {"breadth_decay", AlwaysReads, "a layer's param with breadth_decay_mult", &SolverContext::has_breadth_decay},
      {"kernel_shape_decay", AlwaysReads, "a layer's param with kernel_shape_decay_mult",
       &SolverContext::has_kernel_shape_decay},
      {"block_group_decay", AlwaysReads, "a layer's param with block_group_lasso", &SolverContext::has_block_groups},
      {"test_interval", HasTests, "a test net, which test_iter counts"},
      {"test_initialization", HasTests, "a test net, which test_iter counts"},
      {"test_compute_loss", HasTests, "a test net, which test_iter counts"},
      {"early_stop_patience", HasFirstTest, "the first test net, which test_iter counts"},
      {"test_state", HasTests, "a test net, which test_iter counts"},
      {"sample_grid", HasTests, "a test net, which test_iter counts"},
      {"eval_type", HasTests, "a test net, which test_iter counts"},
      {"ap_version", HasDetection, "eval_type \"detection\" of a test net"},
      {"show_per_class_result", HasTests, "a test net that evaluates classes, by a DetectionEvaluate layer say",
       &SolverContext::has_classes},
      {"loss_scale_window", AlwaysReads, "a loss scale that is found while training: float16 without a loss_scale",
       &SolverContext::finds_loss_scale},
      {"solver_data_type", IsOfKnownType, "FLOAT or FLOAT16: weights are float32 here"},
      {"target_value", HasTarget, "a target_metric"},
      {"snapshot_format", HasPrefix, "a snapshot_prefix"},
      {"debug_info", NeverReads,
       "nothing here: a value that is not finite is found and named without it, and `moka compare` compares blobs"},
      {"store_blobs_in_old_format", NeverReads, kIgnored},
      {"test_and_snapshot_last_epochs", NeverReads, kIgnored},
      {"test_offset", NeverReads, kIgnored},
      {"engine", NeverReads, kIgnored},
      {"group_id", NeverReads, kIgnored},
      {"richness", NeverReads, kIgnored},
      {"force_type", NeverReads, "force_decay alone, which is not part of Moka"},
      {"force_direction", NeverReads, "force_decay alone, which is not part of Moka"},
      {"force_decay_type", NeverReads, "force_decay alone, which is not part of Moka"},
      {"force_iter", NeverReads, "force_decay alone, which is not part of Moka"},
  };
  return kReaders;
}

bool TrainsAlone(const DistributedParameter& d) { return d.strategy() == "local"; }
bool IsDelayed(const DistributedParameter& d) { return d.strategy() == "delayed"; }
bool IsServed(const DistributedParameter& d) { return d.strategy() == "parameter_server"; }
bool IsCompensated(const DistributedParameter& d) { return d.strategy() == "turn" || IsServed(d); }
bool IsStale(const DistributedParameter& d) { return IsServed(d) && d.server() == "stale"; }
bool HasFixedBuckets(const DistributedParameter& d) { return d.fusion() == "fixed"; }

// The same of fields of `distributed` that one way of it reads.
struct DistributedReader {
  std::string field;
  bool (*is_read)(const DistributedParameter&);
  std::string text;
};
const std::vector<DistributedReader>& DistributedReaders() {
  static const std::vector<DistributedReader> kReaders = {
      {"local_steps", TrainsAlone, "strategy \"local\""},
      {"local_from_iter", TrainsAlone, "strategy \"local\""},
      {"delay", IsDelayed, "strategy \"delayed\""},
      {"dynamic_delay", IsDelayed, "strategy \"delayed\""},
      {"delay_compensation", IsCompensated, "strategy \"turn\" or \"parameter_server\""},
      {"server", IsServed, "strategy \"parameter_server\""},
      {"staleness", IsStale, "strategy \"parameter_server\" with server \"stale\""},
      {"bucket_bytes", HasFixedBuckets, "fusion \"fixed\""},
  };
  return kReaders;
}

// The methods that read a field of `distributed.compression`; all that compress where none is named.
const std::map<std::string, std::string>& CompressionReaders() {
  static const std::map<std::string, std::string> kReaders = {
      {"density", "dgc"},   {"warmup_iter", "dgc"}, {"rank", "powersgd"}, {"levels", "qsgd"},
      {"clip", "terngrad"}, {"start_iter", ""},     {"min_elements", ""}, {"force", ""}};
  return kReaders;
}

// The fields that moka train and moka.train act on besides the steps, and those that change no result of theirs.
constexpr std::array kOfWholeTrainings = {
    "best_metric", "deterministic", "keep_best",       "keep_last", "mlperf",       "noise_scale_interval", "recompute",
    "sample_grid", "snapshot_diff", "snapshot_format", "threads",   "target_value", "test_compute_loss"};

// Set to other than the default, which changes nothing.
bool Matters(const google::protobuf::Message& message, const Field& field) {
  const auto& reflection = *message.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(message, &field) > 0;
  if (!reflection.HasField(message, &field)) return false;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32: return reflection.GetInt32(message, &field) != field.default_value_int32();
    case Field::CPPTYPE_INT64: return reflection.GetInt64(message, &field) != field.default_value_int64();
    case Field::CPPTYPE_FLOAT: return reflection.GetFloat(message, &field) != field.default_value_float();
    case Field::CPPTYPE_BOOL: return reflection.GetBool(message, &field) != field.default_value_bool();
    case Field::CPPTYPE_ENUM: return reflection.GetEnum(message, &field) != field.default_value_enum();
    case Field::CPPTYPE_STRING: return reflection.GetString(message, &field) != field.default_value_string();
    default: return true;
  }
}

// A field's values as doubles; none of fields that hold no numbers.
std::vector<double> NumbersOf(const google::protobuf::Message& message, const Field& field) {
  const auto& reflection = *message.GetReflection();
  std::vector<double> numbers;
  if (!field.is_repeated() && !reflection.HasField(message, &field)) return numbers;
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  for (int i = 0; i < count; ++i) {
    const bool one = !field.is_repeated();
    switch (field.cpp_type()) {
      case Field::CPPTYPE_INT32:
        numbers.push_back(one ? reflection.GetInt32(message, &field) : reflection.GetRepeatedInt32(message, &field, i));
        break;
      case Field::CPPTYPE_INT64:
        numbers.push_back(static_cast<double>(one ? reflection.GetInt64(message, &field)
                                                  : reflection.GetRepeatedInt64(message, &field, i)));
        break;
      case Field::CPPTYPE_FLOAT:
        numbers.push_back(one ? reflection.GetFloat(message, &field) : reflection.GetRepeatedFloat(message, &field, i));
        break;
      default: break;
    }
  }
  return numbers;
}

std::string RangeText(const SolverRange& range, double value) {
  const auto end = [](double bound) { return std::abs(bound) >= kInt ? std::string() : StrCat(bound); };
  const bool is_below_1 = range.high == kBelow1;
  const std::string high = is_below_1 ? "below 1" : end(range.high).empty() ? "" : StrCat("at most ", end(range.high));
  if (end(range.low).empty()) return high.empty() ? "a finite number" : high;
  return StrCat(std::isfinite(value) ? "" : "a finite number of ", "at least ", end(range.low),
                high.empty() ? "" : " and ", high);
}

// Those of `distributed` whose own checks do not name them.
const std::vector<SolverRange>& DistributedRanges() {
  static const std::vector<SolverRange> kRanges = {
      {"deadline_s", 1e-3, kFloat}, {"delay_compensation", 0, kFloat}, {"micro_batches", 1, kInt}};
  return kRanges;
}

void CheckNumbersIn(const google::protobuf::Message& message, const SolverParameter& solver, const std::string& path) {
  const bool is_distributed = message.GetDescriptor() == DistributedParameter::descriptor();
  const bool has_ranges = path.empty() || is_distributed || message.GetDescriptor() == TrainTurn::descriptor();
  const std::vector<SolverRange>& ranges = is_distributed ? DistributedRanges() : SolverRanges();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const Field& field = *message.GetDescriptor()->field(i);
    const std::string here = path.empty() ? field.name() : StrCat(path, ".", field.name());
    const auto range = std::ranges::find(ranges, field.name(), &SolverRange::field);
    const std::vector<double> numbers = NumbersOf(message, field);
    for (size_t k = 0; k < numbers.size(); ++k) {
      const SolverRange any{field.name(), -kInt64 * kInt64, kInt64 * kInt64};
      const SolverRange& wanted = has_ranges && range != ranges.end() ? *range : any;
      if (numbers[k] >= wanted.low && numbers[k] <= wanted.high) continue;
      throw Error(ErrorKind::kConfig, PlaceOf(solver, field.is_repeated() ? StrCat(here, "[", k, "]") : here),
                  StrCat(here, " must be ", RangeText(wanted, numbers[k]), ", and is ", numbers[k]));
    }
    const google::protobuf::Descriptor* inner = field.message_type();
    if (inner == nullptr || inner == NetParameter::descriptor() || inner == Origin::descriptor()) continue;
    const auto& reflection = *message.GetReflection();
    if (!field.is_repeated() && reflection.HasField(message, &field))
      CheckNumbersIn(reflection.GetMessage(message, &field), solver, here);
    for (int k = 0; field.is_repeated() && k < reflection.FieldSize(message, &field); ++k) {
      CheckNumbersIn(reflection.GetRepeatedMessage(message, &field, k), solver, StrCat(here, "[", k, "]"));
    }
  }
}

// Caffe's fields and Moka's.
std::vector<SolverRange> MainRanges() {
  return {
      {"test_iter", 0, kInt},  // 0: a net that is built and not tested
      {"test_interval", 0, kInt},
      {"base_lr", 0, kFloat},
      {"display", 0, kInt},
      {"average_loss", 1, kInt},
      {"max_iter", 0, kInt},
      {"iter_size", 1, kInt},
      {"gamma", 0, kFloat},
      {"power", 0, kFloat},
      {"momentum", 0, kBelow1},
      {"weight_decay", 0, kFloat},
      {"stepsize", 0, kInt},
      {"stepvalue", 0, kInt},
      {"clip_gradients", -1, kFloat},
      {"snapshot", 0, kInt},
      {"device_id", 0, kInt},
      {"random_seed", -1, kInt64},
      {"delta", 0, 1e6},
      {"momentum2", 0, kBelow1},
      {"rms_decay", 0, kBelow1},
      {"warmup_iter", 0, kInt},
      {"warmup_start_lr", 0, kFloat},
      {"min_lr", 0, kFloat},
      {"lars_eta", 0, 1e6},
      {"ema_decay", 0, kBelow1},
      {"early_stop_patience", 0, kInt},
      {"max_epochs", 0, kInt},
      {"keep_last", 0, kInt},
      {"target_value", -kFloat, kFloat},
      {"threads", 0, 4096},
      {"loss_scale", 0, kFloat},
      {"loss_scale_window", 1, kInt},
      {"noise_scale_interval", 0, kInt},
      {"noise_scale_decay", 0, kBelow1},
  };
}

// Fields of forks.
std::vector<SolverRange> ForkRanges() {
  return {
      {"rampup_interval", 0, kInt},
      {"rampup_lr", 0, kFloat},
      {"max_momentum", 0, kBelow1},
      {"momentum_power", 0, kFloat},
      {"larc_eta", 0, 1e6},
      {"weight_decay_power", 0, kFloat},
      {"max_weight_decay", 0, kFloat},
      {"test_and_snapshot_last_epochs", 0, kInt},
      {"stagelr", 0, kFloat},
      {"stageiter", 0, kInt},
      {"local_gw_ratio", 0, 1e6},
      {"test_offset", 0, kInt},
      {"plateau_winsize", 1, kInt},
      {"clip_weights", -1, kFloat},
      {"clamp_weights_lower", -kFloat, kFloat},
      {"clamp_weights_upper", -kFloat, kFloat},
      {"group_id", 0, kInt},
      {"richness", 0, kInt},
      {"breadth_decay", 0, kFloat},
      {"kernel_shape_decay", 0, kFloat},
      {"block_group_decay", 0, kFloat},
      {"force_decay", 0, kFloat},
      {"force_iter", -1, kInt},
  };
}

}  // namespace

const std::vector<SolverRange>& SolverRanges() {
  static const std::vector<SolverRange> kRanges = [] {
    std::vector<SolverRange> ranges = MainRanges();
    std::ranges::copy(ForkRanges(), std::back_inserter(ranges));
    return ranges;
  }();
  return kRanges;
}

void CheckSolverNumbers(const SolverParameter& solver) { CheckNumbersIn(solver, solver, {}); }

bool TestsNet(const SolverParameter& solver, int net) {
  return net < solver.test_iter_size() && solver.test_iter(net) > 0;
}

void TellGroups(const NetParameter& net, SolverContext& context) {
  const auto any = [&](auto asks) {
    return std::ranges::any_of(net.layer(),
                               [&](const LayerParameter& layer) { return std::ranges::any_of(layer.param(), asks); });
  };
  context.has_breadth_decay = any([](const ParamSpec& spec) { return spec.breadth_decay_mult() != 0; });
  context.has_kernel_shape_decay = any([](const ParamSpec& spec) { return spec.kernel_shape_decay_mult() != 0; });
  context.has_block_groups = any([](const ParamSpec& spec) { return spec.block_group_lasso_size() > 0; });
}

namespace {

// Calls say(path, what reads it) for each field of `distributed` that this way of it does not read.
template <class Say>
void VisitUnreadOfDistributed(const DistributedParameter& param, Say&& say) {
  for (const DistributedReader& reader : DistributedReaders()) {
    const Field& field = *DistributedParameter::descriptor()->FindFieldByName(reader.field);
    if (Matters(param, field) && !reader.is_read(param)) say(StrCat("distributed.", reader.field), reader.text);
  }
  const CompressionParameter& compression = param.compression();
  for (const auto& [name, method] : CompressionReaders()) {
    const Field& field = *CompressionParameter::descriptor()->FindFieldByName(name);
    const bool is_read = method.empty() ? compression.method() != "none" : compression.method() == method;
    if (!Matters(compression, field) || is_read) continue;
    say(StrCat("distributed.compression.", name),
        method.empty() ? std::string("a method that compresses") : StrCat("method \"", method, "\""));
  }
}

}  // namespace

std::vector<std::string> UnreadSolverFields(const SolverParameter& solver, const SolverContext& context) {
  std::vector<std::string> sentences;
  const auto say = [&](const std::string& field, const std::string& text) {
    sentences.push_back(StrCat(PlaceOf(solver, field).ToString(), ": ", field, " ", text));
  };
  VisitUnreadOfDistributed(solver.distributed(), [&](const std::string& path, const std::string& text) {
    say(path, StrCat("is not read by this training; what reads it is ", text));
  });
  const DistributedParameter& distributed = solver.distributed();
  if (!solver.layer_wise_reduce() && distributed.has_fusion() && distributed.fusion() != "single")
    say("distributed.fusion", "is not read by this training; what reads it is layer_wise_reduce: true");
  for (const Reader& reader : Readers()) {
    const Field& field = *SolverParameter::descriptor()->FindFieldByName(reader.field);
    const bool is_there = reader.is_there == nullptr || context.*reader.is_there;
    if (!Matters(solver, field) || (is_there && reader.is_read(solver))) continue;
    say(field.is_repeated() ? reader.field + "[0]" : reader.field,
        StrCat("is not read by this training; what reads it is ", reader.text));
  }
  for (const auto& [name, text] : RowReaders()) {
    const Field& field = *SolverParameter::descriptor()->FindFieldByName(name);
    if (!Matters(solver, field) || IsReadByRows(solver, name)) continue;
    say(field.is_repeated() ? name + "[0]" : name, StrCat("is not read by this training; what reads it is ", text));
  }
  for (int i = 0; i < solver.turn_size(); ++i) {
    const TrainTurn& turn = solver.turn(i);
    for (const auto& [name, text] : RowReaders()) {
      const Field* field = TrainTurn::descriptor()->FindFieldByName(name);
      const bool is_given = field != nullptr && turn.GetReflection()->HasField(turn, field);
      if (!is_given || IsReadByOptimizer(turn.has_type() ? turn.type() : solver.type(), name)) continue;
      say(StrCat("turn[", i, "].", name), StrCat("is not read by this turn; what reads it is ", text));
    }
  }
  for (const char* name : kOfWholeTrainings) {
    const Field& field = *SolverParameter::descriptor()->FindFieldByName(name);
    if (!context.is_stepped || !Matters(solver, field)) continue;
    say(field.is_repeated() ? StrCat(name, "[0]") : name, "is not read by a solver in Python; moka train reads it");
  }
  if (solver.clip_gradients() == 0) say("clip_gradients", "is 0, which makes every gradient 0: no weight learns");
  if (solver.has_base_lr() && solver.base_lr() == 0 && solver.lr_policy() != "multifixed")
    say("base_lr", "is 0: no weight learns");
  if (solver.clip_weights() == 0) say("clip_weights", "is 0, which makes every weight 0");
  return sentences;
}

}  // namespace moka
