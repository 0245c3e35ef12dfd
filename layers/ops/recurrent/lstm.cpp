// The recurrence of a long short-term memory (Hochreiter, Schmidhuber 1997; forget gates: Gers, Schmidhuber, Cummins
// 2000), all steps at once. What a step's input adds to the gates (x) comes from one product over all steps, and the
// weights' gradient is one product over all steps; only what must wait for the step before is here:
//   m = going[t], [i f o g] = x[t] + (m h') w^T, i, f (its sum plus forget_bias), o = sigmoid, g = tanh,
//   c = m f c' + i g, h = o tanh(c); where m is 0 the state before counts as 0 whatever it holds. A row of length L
//   has ended at step L: it gives 0 from there on, and its last states are those of step L - 1.
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/recurrent/first_results.h"
#include "layers/ops/recurrent/steps.h"

namespace moka {
namespace {

constexpr std::string_view kLstmName = "lstm";

RecurrentSizes LstmSizesOf(const Shape& gates) { return RecurrentSizesOf(gates, 4); }

// The inputs that are the recurrent weights, of the op and of its gradient.
constexpr size_t kLstmWeights = 4;
constexpr size_t kLstmWeightsBack = 7;

std::vector<TensorType> InferLstm(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount(kLstmName, in, 5, 6);
  CheckFloat(kLstmName, "x", in[0]);
  const Shape& x = in[0].shape;
  if (x.rank() != 3 || x[0] < 1 || x[2] % 4 != 0) {
    throw Error(ErrorKind::kConfig, StrCat("lstm: x must be [steps,rows,4*units], found ", x.ToString()));
  }
  const auto [steps, rows, units] = LstmSizesOf(x);
  const Shape state{rows, units};
  CheckShape(kLstmName, "going", in[1].shape, Shape{steps, rows}, "a mark a step and row");
  CheckShape(kLstmName, "h", in[2].shape, state, "a state a row");
  CheckShape(kLstmName, "c", in[3].shape, state, "a state a row");
  CheckShape(kLstmName, "w", in[4].shape, Shape{4 * units, units}, "four gates of a row a unit");
  if (in.size() > 5) CheckShape(kLstmName, "lengths", in[5].shape, Shape{rows}, "a number of steps a row");
  CheckRecurrentTypes(kLstmName, "x", in[0], in, kLstmWeights);
  const TensorType all = PlainType(in[0].dtype, Shape{steps, rows, units});
  const TensorType last = PlainType(in[0].dtype, state);
  return {all, last, last, PlainType(in[0].dtype, x), all};
}

void ForwardLstm(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const RecurrentRows r(in[0].type.shape, 4, in[1], in[4], in.size() > 5 ? &in[5] : nullptr);
  const double bias = attributes.Float("forget_bias");
  RefTensor& y = out[0];
  RefTensor& h_last = out[1];
  RefTensor& c_last = out[2];
  RefTensor& gates = out[3];
  RefTensor& cells = out[4];
  for (const size_t output : {0, 3, 4}) std::ranges::fill(out[output].values, 0.0);
  h_last.values = in[2].values;
  c_last.values = in[3].values;
  for (int64_t t = 0; t < r.steps(); ++t) {
    for (int64_t row = 0; row < r.rows(); ++row) {
      if (r.HasEnded(t, row)) continue;
      const auto before = [&](const std::vector<double>& all, size_t first, int64_t unit) {
        return r.Kept(t, row, t == 0 ? in[first].values[r.At(0, row, unit)] : all[r.At(t - 1, row, unit)]);
      };
      for (int64_t k = 0; k < 4 * r.units(); ++k) {
        const size_t at = r.Gate(t, row, 0, k);
        double sum = in[0].values[at];
        for (int64_t j = 0; j < r.units(); ++j) sum += r.w(k, j) * before(y.values, 2, j);
        const int64_t gate = k / r.units();
        gates.values[at] = gate == 3 ? std::tanh(sum) : ReferenceSigmoid(gate == 1 ? sum + bias : sum);
      }
      for (int64_t j = 0; j < r.units(); ++j) {
        const auto gate = [&](int64_t g) { return gates.values[r.Gate(t, row, g, j)]; };
        const double c = gate(0) * gate(3) + gate(1) * before(cells.values, 3, j);
        cells.values[r.At(t, row, j)] = c;
        y.values[r.At(t, row, j)] = gate(2) * std::tanh(c);
        c_last.values[r.At(0, row, j)] = c;
        h_last.values[r.At(0, row, j)] = y.values[r.At(t, row, j)];
      }
    }
  }
}

constexpr size_t kLstmResults = 3;  // that are not saved for the gradient

std::vector<TensorType> InferLstmForward(const Attributes& attributes, std::span<const TensorType> in) {
  return FirstTypes(InferLstm(attributes, in), kLstmResults);
}

void LstmReferenceForward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  FirstResults(InferLstm, ForwardLstm, attributes, in, out);
}

void LstmGradient(GradientContext& c) {
  const GraphBuilder& b = c.b();
  const auto given = [&](int output) {
    return c.dy(output) != kNoId ? c.dy(output) : b.Full(b.shape(c.y(output)), 0.0, b.type(c.y(output)).dtype);
  };
  std::vector<ValueId> inputs{given(0), given(1), given(2), c.y(3), c.y(4), c.x(1), c.x(3), c.x(4)};
  if (c.input_count() > 5) inputs.push_back(c.x(5));
  if (c.dy(3) != kNoId || c.dy(4) != kNoId) {
    inputs.push_back(given(3));
    inputs.push_back(given(4));
  }
  const bool wants_first = c.wants(2) || c.wants(3);
  const std::vector<ValueId> d = b.Add("lstm_backward", inputs, {{"first", wants_first}});
  c.SetDx(0, d[0]);
  if (wants_first) {
    c.SetDx(2, d[1]);
    c.SetDx(3, d[2]);
  }
  if (!c.wants(4)) return;
  const Shape gates = b.shape(d[0]);
  const ValueId rows = b.Reshape(d[0], Shape{gates[0] * gates[1], gates[2]});
  const ValueId before = StatesBefore(b, c.y(0), c.x(2), c.x(1));
  c.SetDx(4, b.Add1("matmul", {rows, before}, {{"transpose_a", true}, {"transpose_b", false}}));
}

std::vector<TensorType> InferLstmBackward(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("lstm_backward", in, 8, 11);
  const Shape& gates = in[3].shape;
  CheckFloat("lstm_backward", "gates", in[3]);
  if (gates.rank() != 3 || gates[0] < 1 || gates[2] % 4 != 0) {
    throw Error(ErrorKind::kConfig,
                StrCat("lstm_backward: gates must be [steps,rows,4*units], found ", gates.ToString()));
  }
  const auto [steps, rows, units] = LstmSizesOf(gates);
  const Shape all{steps, rows, units};
  const Shape state{rows, units};
  std::vector<Shape> expected{all, state, state, gates, all, Shape{steps, rows}, state, Shape{4 * units, units}};
  if (in.size() % 2 == 1) expected.push_back(Shape{rows});
  expected.insert(expected.end(), {gates, all});
  for (size_t i = 0; i < in.size(); ++i) {
    CheckShape("lstm_backward", StrCat("input ", i), in[i].shape, expected[i], "as the forward pass had it");
  }
  CheckRecurrentTypes("lstm_backward", "gates", in[3], in, kLstmWeightsBack);
  std::vector<TensorType> out{PlainType(in[3].dtype, gates)};
  if (attributes.Bool("first")) out.insert(out.end(), 2, PlainType(in[3].dtype, state));
  return out;
}

// dx [T,N,4H] of one row of a step from dh and dc, which becomes the dc of the step before.
void LstmBackwardUnit(const RecurrentRows& r, std::span<const RefTensor> in, int64_t t, int64_t row, int64_t j,
                      double dh, double& dc, std::vector<double>& dx) {
  const auto gate = [&](int64_t g) { return in[3].values[r.Gate(t, row, g, j)]; };
  const bool has_more = in.size() >= 10;
  const auto more = [&](int64_t g) { return has_more ? in[in.size() - 2].values[r.Gate(t, row, g, j)] : 0.0; };
  const double c = std::tanh(in[4].values[r.At(t, row, j)]);
  const double before = r.Kept(t, row, t == 0 ? in[6].values[r.At(0, row, j)] : in[4].values[r.At(t - 1, row, j)]);
  dc += dh * gate(2) * (1 - c * c) + (has_more ? in.back().values[r.At(t, row, j)] : 0.0);
  const double d[] = {dc * gate(3) + more(0), dc * before + more(1), dh * c + more(2), dc * gate(0) + more(3)};
  for (int64_t g = 0; g < 3; ++g) dx[r.Gate(t, row, g, j)] = d[g] * gate(g) * (1 - gate(g));
  dx[r.Gate(t, row, 3, j)] = d[3] * (1 - gate(3) * gate(3));
  dc = r.Kept(t, row, dc * gate(1));
}

void BackwardLstm(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const RecurrentRows r(in[3].type.shape, 4, in[5], in[7], in.size() % 2 == 1 ? &in[8] : nullptr);
  std::ranges::fill(out[0].values, 0.0);
  std::vector<double> dh = in[1].values;
  std::vector<double> dc = in[2].values;
  for (int64_t t = r.steps() - 1; t >= 0; --t) {
    for (int64_t row = 0; row < r.rows(); ++row) {
      if (r.HasEnded(t, row)) continue;
      for (int64_t j = 0; j < r.units(); ++j) {
        const size_t at = r.At(0, row, j);
        LstmBackwardUnit(r, in, t, row, j, dh[at] + in[0].values[r.At(t, row, j)], dc[at], out[0].values);
      }
      for (int64_t j = 0; j < r.units(); ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 4 * r.units(); ++k) sum += out[0].values[r.Gate(t, row, 0, k)] * r.w(k, j);
        dh[r.At(0, row, j)] = r.Kept(t, row, sum);
      }
    }
  }
  if (out.size() == 1) return;
  out[1].values = std::move(dh);
  out[2].values = std::move(dc);
}

struct LstmExample {
  const char* name;
  int64_t steps, rows, units;
  double going_low;     // whole marks from here to 1
  int64_t longest = 0;  // lengths from 0 to it; 0: every row has all steps
};

constexpr LstmExample kLstmExamples[] = {
    {"cells", 4, 3, 5, 0},          {"one_step", 1, 2, 4, 1},    {"all_new", 2, 3, 4, 0},
    {"many_rows", 3, 29, 7, 0},     {"many_units", 3, 5, 41, 1}, {"one_unit", 5, 1, 1, 0},
    {"wide", 2, 14, 70, 0},         {"lengths", 4, 29, 7, 0, 4}, {"short", 5, 3, 6, 0, 2},
    {"very_short", 3, 30, 3, 1, 1}, {"panels", 3, 29, 64, 0},    {"short_panels", 4, 15, 32, 0, 4},
};

std::vector<OpCase> LstmCases() {
  std::vector<OpCase> cases;
  for (const auto& [name, t, n, h, low, longest] : kLstmExamples) {
    cases.push_back(
        {.name = name,
         .inputs = {Float32({t, n, 4 * h}), Float32({t, n}), Float32({n, h}), Float32({n, h}), Float32({4 * h, h})},
         .attributes = {{"forget_bias", t == 3 ? 1.0 : 0.0}},
         .ranges = {{1, low, 1}}});
    AddLengths(n, longest, cases.back());
  }
  return cases;
}

std::vector<OpCase> LstmForwardCases() {
  std::vector<OpCase> cases = LstmCases();
  for (OpCase& c : cases) c.attributes.Set("constant_weights", true);
  return cases;
}

std::vector<OpCase> LstmBackwardCases() {
  std::vector<OpCase> cases;
  for (const auto& [name, t, n, h, low, longest] : kLstmExamples) {
    const TensorType all = Float32({t, n, h});
    const TensorType state = Float32({n, h});
    const TensorType gates = Float32({t, n, 4 * h});
    cases.push_back({.name = name,
                     .inputs = {all, state, state, gates, all, Float32({t, n}), state, Float32({4 * h, h})},
                     .attributes = {{"first", t != 3}},
                     .ranges = {{5, low, 1}}});
    AddLengths(n, longest, cases.back());
  }
  return cases;
}

int64_t LstmFlops(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  const Shape& w = in[in.size() < 8 ? 4 : 7].shape;
  const Shape& gates = in[in.size() < 8 ? 0 : 3].shape;
  return 2 * gates[0] * gates[1] * w.Count();
}

}  // namespace

OpDef LstmOp() {
  return {.name = "lstm",
          .doc =
              "(x [T,N,4H], going [T,N], h [N,H], c [N,H], w [4H,H][, lengths [N]]) -> y [T,N,H], the last h and c "
              "[N,H], the gates "
              "[T,N,4H] and cells [T,N,H] of every step: long short-term memory over T steps.",
          .attributes = {{"forget_bias", 0.0, "added to the forget gate's sum"}},
          .infer = InferLstm,
          .reference = ForwardLstm,
          .gradient = LstmGradient,
          .may_overwrite = [](const Attributes&, int input, int output) { return input == 0 && output == 3; },
          .precision = Precision::kPrefer16,
          .takes_half = IsInput<kLstmWeights>,
          .flops = LstmFlops,
          .cases = LstmCases};
}

OpDef LstmForwardOp() {
  return {.name = "lstm_forward",
          .doc =
              "(x [T,N,4H], going [T,N], h [N,H], c [N,H], w [4H,H][, lengths [N]]) -> y [T,N,H], the last h and c "
              "[N,H]: lstm without what its gradient reads.",
          .attributes = {{"forget_bias", 0.0, "added to the forget gate's sum"},
                         {"constant_weights", false, "whether w is the same in every run; set by a pass"}},
          .infer = InferLstmForward,
          .reference = LstmReferenceForward,
          .precision = Precision::kPrefer16,
          .takes_half = IsInput<kLstmWeights>,
          .flops = LstmFlops,
          .cases = LstmForwardCases};
}

OpDef LstmBackwardOp() {
  return {
      .name = "lstm_backward",
      .doc =
          "(dy, dh_last, dc_last, gates, cells, going, c, w[, dgates, dcells]) -> dx [T,N,4H][, dh [N,H], dc [N,H]]: "
          "the gradient of lstm but for w's.",
      .attributes = {{"first", true, "whether the gradient of the first state is a result"}},
      .infer = InferLstmBackward,
      .reference = BackwardLstm,
      .may_overwrite = [](const Attributes&, int input, int output) { return input == 3 && output == 0; },
      .precision = Precision::kPrefer16,
      .takes_half = IsInput<kLstmWeightsBack>,
      .flops = LstmFlops,
      .cases = LstmBackwardCases};
}

}  // namespace moka
