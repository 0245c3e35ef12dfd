// Connectionist temporal classification (Graves, Fernandez, Gomez, Schmidhuber, ICML 2006): loss[n] = -log of the sum,
// over all paths of `length[n]` classes that read as the target, of their probability under softmax(x). A path reads as
// a target when its runs of one class become one label (merge_repeated) and its blanks go.
//
// The target with blanks around every label, l' of 2U+1 states, is walked forward (alpha) and backward (beta) in
// logarithms; dx[t,c] = softmax(x)[t,c] - (the part of the paths' probability that is at class c at step t).
#include <cmath>
#include <limits>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

double LogSum(double a, double b) {
  const double larger = std::max(a, b);
  if (larger == kLogZero) return kLogZero;
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

struct Rules {
  int64_t blank;
  bool merges;
  bool collapses;
  bool skips_empty;
};

Rules RulesOf(const Attributes& attributes) {
  return {attributes.Int("blank"), attributes.Bool("merge_repeated"), attributes.Bool("collapse_target"),
          attributes.Bool("skip_empty")};
}

struct CtcLossSizes {
  int64_t steps, streams, classes, labels;
};

// Checks what both ops share.
CtcLossSizes CtcLossSizesOf(std::string_view op, const Attributes& attributes, std::span<const TensorType> in) {
  CheckFloat(op, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 3 || x.Count() < 1 || in[1].shape.rank() != 2 || in[1].shape[0] != x[1]) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": x must be [T,N,C] and the labels [N,L], found ", x.ToString(),
                                           " and ", in[1].shape.ToString()));
  }
  CheckShape(op, "length", in[2].shape, {x[1]}, "one a sequence");
  const int64_t blank = attributes.Int("blank");
  if (blank < 0 || blank >= x[2]) {
    throw Error(ErrorKind::kConfig,
                StrCat(op, ": the blank must be one of the ", x[2], " classes, found class ", blank));
  }
  return {x[0], x[1], x[2], in[1].shape[1]};
}

// The target of a row with a blank before, between and after its labels.
std::vector<int64_t> WithBlanks(const double* row, const CtcLossSizes& s, const Rules& rules) {
  std::vector<int64_t> states{rules.blank};
  int64_t before = -1;
  for (int64_t i = 0; i < s.labels; ++i) {
    if (!(row[i] >= 0 && row[i] + 0.5 < static_cast<double>(s.classes))) break;
    const auto label = static_cast<int64_t>(std::llround(row[i]));
    const bool repeats = rules.collapses && label == before;
    before = label;
    if (label == rules.blank || repeats) continue;
    states.push_back(label);
    states.push_back(rules.blank);
  }
  return states;
}

// One sequence: its loss, and in dx (if not null) the loss's slope.
class Alignment {
 public:
  Alignment(const RefTensor& x, const CtcLossSizes& sizes, const Rules& rules, int64_t stream, int64_t length,
            std::vector<int64_t> states)
      : s_(sizes), rules_(rules), stream_(stream), length_(length), states_(std::move(states)) {
    log_.resize(static_cast<size_t>(length * s_.classes));
    for (int64_t t = 0; t < length; ++t) Normalize(x, t);
  }

  double LogProbability() {
    alpha_.assign(static_cast<size_t>(length_ * count()), kLogZero);
    for (int64_t i = 0; i < std::min<int64_t>(2, count()); ++i) At(alpha_, 0, i) = Log(0, i);
    for (int64_t t = 1; t < length_; ++t) {
      for (int64_t i = 0; i < count(); ++i) {
        double sum = kLogZero;
        if (Stays(i)) sum = At(alpha_, t - 1, i);
        if (i >= 1) sum = LogSum(sum, At(alpha_, t - 1, i - 1));
        if (i >= 2 && Skips(i)) sum = LogSum(sum, At(alpha_, t - 1, i - 2));
        At(alpha_, t, i) = sum + Log(t, i);
      }
    }
    double total = kLogZero;
    for (int64_t i = std::max<int64_t>(0, count() - 2); i < count(); ++i) {
      total = LogSum(total, At(alpha_, length_ - 1, i));
    }
    return total;
  }

  // Requires: LogProbability() gave `total`, which is finite.
  void AddSlope(double total, double weight, RefTensor& dx) {
    beta_.assign(alpha_.size(), kLogZero);
    for (int64_t i = std::max<int64_t>(0, count() - 2); i < count(); ++i) At(beta_, length_ - 1, i) = 0;
    for (int64_t t = length_ - 2; t >= 0; --t) {
      for (int64_t i = 0; i < count(); ++i) {
        double sum = Stays(i) ? At(beta_, t + 1, i) + Log(t + 1, i) : kLogZero;
        if (i + 1 < count()) sum = LogSum(sum, At(beta_, t + 1, i + 1) + Log(t + 1, i + 1));
        if (i + 2 < count() && Skips(i + 2)) sum = LogSum(sum, At(beta_, t + 1, i + 2) + Log(t + 1, i + 2));
        At(beta_, t, i) = sum;
      }
    }
    for (int64_t t = 0; t < length_; ++t) {
      double* row = &dx.values[static_cast<size_t>((t * s_.streams + stream_) * s_.classes)];
      for (int64_t c = 0; c < s_.classes; ++c) {
        row[c] += weight * std::exp(log_[static_cast<size_t>(t * s_.classes + c)]);
      }
      for (int64_t i = 0; i < count(); ++i) {
        row[states_[static_cast<size_t>(i)]] -= weight * std::exp(At(alpha_, t, i) + At(beta_, t, i) - total);
      }
    }
  }

 private:
  int64_t count() const { return static_cast<int64_t>(states_.size()); }
  double& At(std::vector<double>& table, int64_t t, int64_t i) { return table[static_cast<size_t>(t * count() + i)]; }
  // log softmax(x) of state i's class at step t.
  double Log(int64_t t, int64_t i) const {
    return log_[static_cast<size_t>(t * s_.classes + states_[static_cast<size_t>(i)])];
  }
  // Whether a path may be in state i twice running, or come to it past the state between.
  bool Stays(int64_t i) const { return rules_.merges || i % 2 == 0; }
  bool Skips(int64_t i) const {
    return i % 2 == 1 && !(rules_.merges && states_[static_cast<size_t>(i)] == states_[static_cast<size_t>(i - 2)]);
  }

  void Normalize(const RefTensor& x, int64_t t) {
    const double* row = &x.values[static_cast<size_t>((t * s_.streams + stream_) * s_.classes)];
    double* log = &log_[static_cast<size_t>(t * s_.classes)];
    double largest = row[0];
    for (int64_t c = 1; c < s_.classes; ++c) largest = std::max(largest, row[c]);
    double sum = 0;
    for (int64_t c = 0; c < s_.classes; ++c) sum += std::exp(row[c] - largest);
    for (int64_t c = 0; c < s_.classes; ++c) log[c] = row[c] - largest - std::log(sum);
  }

  const CtcLossSizes& s_;
  const Rules& rules_;
  int64_t stream_;
  int64_t length_;
  std::vector<int64_t> states_;
  std::vector<double> log_;    // [length, classes]
  std::vector<double> alpha_;  // [length, states]
  std::vector<double> beta_;
};

// Calls f(stream, alignment, log probability) for every sequence that has a path.
template <class F>
void VisitSequences(const Attributes& attributes, std::span<const RefTensor> in, F&& f) {
  const Shape& x = in[0].type.shape;
  const CtcLossSizes s{x[0], x[1], x[2], in[1].type.shape[1]};
  const Rules rules = RulesOf(attributes);
  for (int64_t n = 0; n < s.streams; ++n) {
    const double length = in[2].values[static_cast<size_t>(n)];
    if (!(length >= 1)) continue;
    const auto steps = static_cast<int64_t>(std::min(length, static_cast<double>(s.steps)));
    std::vector<int64_t> states = WithBlanks(in[1].values.data() + n * s.labels, s, rules);
    if (states.size() == 1 && rules.skips_empty) continue;
    Alignment alignment(in[0], s, rules, n, steps, std::move(states));
    const double total = alignment.LogProbability();
    if (total != kLogZero) f(n, alignment, total);
  }
}

std::vector<TensorType> InferCtcLoss(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("ctc_loss", in, 3, 3);
  const CtcLossSizes s = CtcLossSizesOf("ctc_loss", attributes, in);
  return {PlainType(StatisticsType(in[0].dtype), {s.streams})};
}

void CtcLossReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values.assign(out[0].values.size(), 0);
  VisitSequences(attributes, in,
                 [&](int64_t n, Alignment&, double total) { out[0].values[static_cast<size_t>(n)] = -total; });
}

void CtcLossGradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.SetDx(0, c.b().Add1("ctc_loss_backward", {c.x(0), c.x(1), c.x(2), c.dy(0)}, c.attributes()));
}

std::vector<TensorType> InferCtcLossBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("ctc_loss_backward", in, 4, 4);
  const CtcLossSizes s = CtcLossSizesOf("ctc_loss_backward", attributes, in);
  CheckShape("ctc_loss_backward", "dloss", in[3].shape, {s.streams}, "one a sequence");
  return {PlainType(in[0].dtype, in[0].shape)};
}

void CtcLossReferenceBackward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  out[0].values.assign(out[0].values.size(), 0);
  VisitSequences(attributes, in, [&](int64_t n, Alignment& alignment, double total) {
    alignment.AddSlope(total, in[3].values[static_cast<size_t>(n)], out[0]);
  });
}

std::vector<OpCase> MakeCtcLossCases(bool backward) {
  struct Example {
    const char* name;
    Shape x;
    int64_t labels;
    double low, high;  // of labels
    double shortest;
    Attributes rules;
  };
  const auto rules = [](int64_t blank, bool merges, bool collapses, bool skips_empty) {
    return Attributes{
        {"blank", blank}, {"merge_repeated", merges}, {"collapse_target", collapses}, {"skip_empty", skips_empty}};
  };
  const std::vector<Example> examples = {
      {"first_blank", {8, 4, 5}, 3, 0, 4, 8, rules(0, true, false, false)},
      {"last_blank", {9, 3, 4}, 3, -1, 3, 5, rules(3, true, false, true)},
      {"repeats", {9, 2, 2}, 4, 1, 1, 9, rules(0, true, false, false)},
      {"too_long", {3, 3, 3}, 4, 0, 2, 1, rules(2, true, false, false)},
      {"unmerged", {7, 3, 3}, 3, 0, 2, 4, rules(0, false, false, false)},
      {"collapsed", {6, 3, 3}, 5, 0, 2, 4, rules(0, true, true, false)},
      {"one_step", {1, 4, 3}, 2, -1, 2, 0, rules(1, true, false, false)},
  };
  std::vector<OpCase> cases;
  for (const Example& e : examples) {
    OpCase c{.name = e.name,
             .inputs = {{DType::kFloat32, e.x, {}}, {DType::kFloat32, {e.x[1], e.labels}, {}}, Float32({e.x[1]})},
             .attributes = e.rules,
             .low = -2,
             .high = 2,
             .ranges = {{1, e.low, e.high}, {2, e.shortest, static_cast<double>(e.x[0])}}};
    if (backward) c.inputs.push_back(Float32({e.x[1]}));
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<AttributeSpec> CtcLossSpecs() {
  return {{"blank", {}, "the class that stands for no label"},
          {"merge_repeated", true, "whether a run of one class in a path is one label"},
          {"collapse_target", false, "whether equal neighbours of a target are one label"},
          {"skip_empty", false, "whether sequences with an empty target count nothing"}};
}

}  // namespace

OpDef CtcLossOp() {
  return {.name = "ctc_loss",
          .doc =
              "(x [T,N,C], labels [N,L], length [N]) -> loss [N]: -log of the probability of the labels' paths under "
              "softmax(x) over the first length steps. A row of labels ends at the first that is no class; blanks in "
              "it are left out. Sequences of no steps, and targets longer than any path, have loss 0.",
          .attributes = CtcLossSpecs(),
          .infer = InferCtcLoss,
          .reference = CtcLossReference,
          .gradient = CtcLossGradient,
          .precision = Precision::kKeep32,
          .on_host = on_host::kDecodes,
          .cases = [] { return MakeCtcLossCases(false); }};
}

OpDef CtcLossBackwardOp() {
  return {.name = "ctc_loss_backward",
          .doc = "(x [T,N,C], labels [N,L], length [N], dloss [N]) -> dx like x.",
          .attributes = CtcLossSpecs(),
          .infer = InferCtcLossBackward,
          .reference = CtcLossReferenceBackward,
          .precision = Precision::kKeep32,
          .on_host = on_host::kDecodes,
          .cases = [] { return MakeCtcLossCases(true); }};
}

}  // namespace moka
