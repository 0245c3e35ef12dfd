// Fields of the solver are floats: they are compared, and logged, as the decimals that they were written as.
#include "optim/run/mlperf_fields.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "optim/optimizers/solver_fields.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr double kEndRate = 0.0001;       // of the closed division's polynomial
constexpr double kDecayUnit = 0.0001;     // times a power of two
constexpr double kSgdRateUnit = 0.001;    // times a whole number
constexpr double kPolynomial = 2;         // its power for LARS
constexpr double kImageAccuracy = 0.759;  // the quality that "resnet" must reach
constexpr double kDetectionAp = 0.34;     // and "ssd"

// 0.0001 for the float that is nearest to it.
double AsWritten(float value) {
  std::array<char, 32> text{};
  const auto [end, code] = std::to_chars(text.data(), text.data() + text.size(), value);
  double written = value;
  if (code == std::errc()) std::from_chars(text.data(), end, written);
  return written;
}

// As the checker has it.
bool IsWhole(double value) { return std::abs(std::round(value) - value) < 1e-5; }

// The checks of one solver, which fail at a field with its place.
class Words {
 public:
  explicit Words(const SolverParameter& solver) : solver_(solver), mlperf_(solver.mlperf()) {}

  void CheckWord(std::string_view field, const std::string& word, const std::vector<std::string>& known) const {
    if (std::ranges::find(known, word) != known.end()) return;
    const std::string near = DidYouMean(word, known);
    Fail(StrCat("mlperf.", field),
         word.empty() ? StrCat("mlperf.", field, " is not given")
                      : StrCat("mlperf.", field, " \"", Printable(word), "\" is not one of MLPerf's that Moka knows"),
         near.empty() ? StrCat("known are ", Join(known, ", ")) : near);
  }
  void CheckGiven(std::string_view field, const std::string& text) const {
    if (text.empty()) Fail(StrCat("mlperf.", field), StrCat("mlperf.", field, " is not given"), "the log must name it");
  }

  // A training that has what every log must tell.
  void CheckCourse() const {
    if (solver_.turn_size() > 0) Fail("mlperf", "MLPerf's log is of one net, and this training has turns");
    const bool is_tested = TestsNet(solver_, 0) && solver_.test_interval() > 0;
    const bool is_in_time = !solver_.has_max_iter() || solver_.test_interval() <= solver_.max_iter();
    if (is_tested && (is_in_time || solver_.test_initialization())) return;
    Fail("mlperf", "MLPerf's log needs eval_accuracy, and this training has no test",
         "give a test net, test_iter and a test_interval of at most max_iter");
  }

  // All closed rules ask for this.
  void CheckClosed() const {
    const double quality = mlperf_.benchmark() == "resnet" ? kImageAccuracy : kDetectionAp;
    const std::string wanted = StrCat("a target_metric with a target_value of ", quality, " or more");
    if (!solver_.has_target_metric()) Refuse("mlperf", "eval_accuracy", wanted, "the solver has none");
    if (mlperf_.has_metric() && mlperf_.metric() != solver_.target_metric()) {
      Refuse("mlperf.metric", "eval_accuracy", "the target_metric as its metric",
             StrCat("mlperf.metric is \"", Printable(mlperf_.metric()), "\""));
    }
    if (AsWritten(solver_.target_value()) < quality)
      Refuse("target_value", "eval_accuracy", wanted, Is("target_value", AsWritten(solver_.target_value())));
    if (solver_.momentum_policy() != "fixed" || solver_.weight_decay_policy() != "fixed")
      Refuse("", "opt_weight_decay", "a momentum and a decay that stay", "a policy changes them");
    mlperf_.benchmark() == "resnet" ? CheckClosedResnet() : CheckClosedSsd();
  }

 private:
  void CheckClosedResnet() const {
    const bool is_lars = solver_.type() == "LARS";
    const bool is_sgd = solver_.type() == "SGD" && !solver_.larc() && !solver_.local_lr_auto();
    if (!is_lars && !is_sgd) Refuse("type", "opt_name", "sgd or lars", "this solver's is neither");
    const std::string prefix = is_lars ? "lars_opt_" : "sgd_opt_";
    if (solver_.lr_policy() != "poly") {
      Refuse("lr_policy", prefix + "learning_rate_decay_poly_power", "lr_policy \"poly\"",
             StrCat("it is \"", Printable(solver_.lr_policy()), "\""));
    }
    const double end = AsWritten(solver_.min_lr());
    if (end != kEndRate) Refuse("min_lr", prefix + "end_learning_rate", StrCat(kEndRate), Is("min_lr", end));
    const double power = AsWritten(solver_.power());
    if (is_lars && power != kPolynomial)
      Refuse("power", prefix + "learning_rate_decay_poly_power", StrCat(kPolynomial), Is("power", power));
    const double decay = AsWritten(solver_.weight_decay());
    if (decay <= 0 || !IsWhole(std::log2(decay / kDecayUnit)))
      Refuse("weight_decay", prefix + "weight_decay", "0.0001 times a power of two", Is("weight_decay", decay));
    const double rate = AsWritten(solver_.base_lr());
    if (is_sgd && !IsWhole(rate / kSgdRateUnit))
      Refuse("base_lr", prefix + "base_learning_rate", "a multiple of 0.001", Is("base_lr", rate));
  }

  void CheckClosedSsd() const {
    if (solver_.type() != "Adam") Refuse("type", "opt_name", "adam", StrCat("type is \"", solver_.type(), "\""));
    const double decay = AsWritten(solver_.weight_decay());
    if (decay != 0) Refuse("weight_decay", "opt_weight_decay", "0", Is("weight_decay", decay));
    if (AsWritten(solver_.base_lr()) <= 0)
      Refuse("base_lr", "opt_base_learning_rate", "a rate above 0", Is("base_lr", AsWritten(solver_.base_lr())));
  }

  static std::string Is(std::string_view field, double value) { return StrCat(field, " is ", value); }

  [[noreturn]] void Refuse(const std::string& field, std::string_view key, std::string_view wanted,
                           std::string_view found) const {
    Fail(field,
         StrCat("MLPerf's closed division of \"", mlperf_.benchmark(), "\": ", key, " must be ", wanted, ", and ",
                found),
         "the open division takes any: mlperf { division: \"open\" }");
  }
  [[noreturn]] void Fail(const std::string& field, std::string text, std::string hint = {}) const {
    throw Error(ErrorKind::kConfig, PlaceOf(solver_, field), std::move(text), std::move(hint));
  }

  const SolverParameter& solver_;
  const MlperfParameter& mlperf_;
};

MlperfValue EpochsOf(int64_t iterations, const MlperfFacts& facts) {
  const int64_t steps = facts.steps_per_epoch();
  if (iterations % steps == 0) return iterations / steps;
  return static_cast<double>(iterations) / static_cast<double>(steps);
}

void AddPolynomial(const SolverParameter& solver, const std::string& prefix, std::vector<MlperfField>& fields) {
  if (solver.lr_policy() != "poly") return;
  const int64_t before = solver.policy_after_warmup() ? solver.warmup_iter() : 0;
  fields.push_back({prefix + "end_learning_rate", AsWritten(solver.min_lr())});
  fields.push_back({prefix + "learning_rate_decay_poly_power", AsWritten(solver.power())});
  fields.push_back({prefix + "learning_rate_decay_steps", int64_t{solver.max_iter()} - before});
}

}  // namespace

void CheckMlperf(const SolverParameter& solver) {
  if (!solver.has_mlperf()) return;
  const MlperfParameter& mlperf = solver.mlperf();
  const Words words(solver);
  words.CheckWord("benchmark", mlperf.benchmark(), {"resnet", "ssd"});
  words.CheckWord("division", mlperf.division(), {"closed", "open"});
  words.CheckWord("status", mlperf.status(), {"cloud", "onprem", "preview", "research"});
  words.CheckGiven("submission_org", mlperf.submission_org());
  words.CheckGiven("platform", mlperf.platform());
  words.CheckCourse();
  if (mlperf.division() == "closed") words.CheckClosed();
}

std::vector<MlperfField> MlperfHyperparameters(const SolverParameter& solver, const MlperfFacts& facts) {
  const std::string name = AsciiLower(solver.type());
  const bool is_image = solver.mlperf().benchmark() == "resnet";
  const bool has_prefix = is_image && (name == "lars" || name == "sgd");
  const std::string prefix = has_prefix ? name + "_opt_" : "opt_";
  std::vector<MlperfField> fields = {{"global_batch_size", facts.batch},
                                     {"gradient_accumulation_steps", int64_t{solver.iter_size()}},
                                     {"opt_name", name},
                                     {prefix + "base_learning_rate", AsWritten(solver.base_lr())},
                                     {prefix + "weight_decay", AsWritten(solver.weight_decay())}};
  AddPolynomial(solver, prefix, fields);
  // The rules of "resnet" have the warm-up under LARS's prefix, and not under that of SGD.
  const std::string warmup = has_prefix && name == "lars" ? prefix : "opt_";
  fields.push_back({warmup + "learning_rate_warmup_epochs", EpochsOf(solver.warmup_iter(), facts)});
  if (!is_image && solver.base_lr() > 0) {
    const double start = solver.warmup_iter() > 0 ? AsWritten(solver.warmup_start_lr()) : AsWritten(solver.base_lr());
    fields.push_back({"opt_learning_rate_warmup_factor", start / AsWritten(solver.base_lr())});
  }
  if (name == "lars") fields.push_back({"lars_epsilon", 0.0});  // nothing is added to the norms
  if (name.starts_with("adam")) {
    const std::string own = StrCat("opt_", name, "_");
    fields.push_back({own + "beta_1", AsWritten(solver.momentum())});
    fields.push_back({own + "beta_2", AsWritten(solver.momentum2())});
    fields.push_back({own + "epsilon", AsWritten(solver.delta())});
  } else {
    fields.push_back({prefix + "momentum", AsWritten(solver.momentum())});
  }
  if (facts.norm_span > 0) fields.push_back({"model_bn_span", facts.norm_span});
  return fields;
}

void WriteMlperfHead(const MlperfLog& log, const SolverParameter& solver, const MlperfFacts& facts,
                     const ColdData& cold) {
  const MlperfParameter& mlperf = solver.mlperf();
  const MlperfLog begun = log.At(cold.at_ms);
  std::vector<MlperfField> files = {{"files", cold.files}, {"bytes", cold.bytes}};
  if (!cold.is_cold) files.push_back({"reason", cold.why});
  begun.Event("cache_clear", cold.is_cold, files);
  begun.Start("init_start");
  log.Event("submission_benchmark", mlperf.benchmark());
  log.Event("submission_org", mlperf.submission_org());
  log.Event("submission_division", mlperf.division());
  log.Event("submission_status", mlperf.status());
  log.Event("submission_platform", mlperf.platform());
  log.Event("seed", static_cast<int64_t>(facts.seed));
  log.Event("train_samples", facts.train_samples);
  log.Event("eval_samples", facts.eval_samples);
  for (const MlperfField& field : MlperfHyperparameters(solver, facts)) log.Event(field.name, field.value);
  log.End("init_stop");
}

}  // namespace moka
