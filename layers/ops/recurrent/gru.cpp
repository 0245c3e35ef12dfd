// The recurrence of a gated recurrent unit (Cho et al. 2014, arXiv 1406.1078), all steps at once, in the form of cuDNN
// and PyTorch: the reset gate comes after the recurrent product, so that a step is one product of the state before.
// The part that a step's input adds to the gates (x) comes from one product over all steps, and the weights' gradient
// is one product over all steps; only what must wait for the step before is here:
//   m = going[t], [r z q] = (m h') w^T, r = sigmoid(x_r + r), z = sigmoid(x_z + z), q = q + c, n = tanh(x_n + r q),
//   h = (1 - z) n + z m h'; where m is 0 the state before counts as 0 whatever it holds. A row of length L has ended at
//   step L: it gives 0 from there on, and its last state is that of step L - 1.
#include <cmath>

#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/recurrent/first_results.h"
#include "layers/ops/recurrent/steps.h"

namespace moka {
namespace {

RecurrentSizes CheckGates(std::string_view op, const char* name, const TensorType& gates) {
  CheckFloat(op, name, gates);
  const Shape& shape = gates.shape;
  if (shape.rank() != 3 || shape[0] < 1 || shape[2] % 3 != 0) {
    throw Error(ErrorKind::kConfig, StrCat(op, ": ", name, " must be [steps,rows,3*units], found ", shape.ToString()));
  }
  return RecurrentSizesOf(shape, 3);
}

// The inputs that are the recurrent weights, of the op and of its gradient.
constexpr size_t kGruWeights = 3;
constexpr size_t kGruWeightsBack = 7;

std::vector<TensorType> InferGru(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("gru", in, 5, 6);
  const auto [steps, rows, units] = CheckGates("gru", "x", in[0]);
  const Shape state{rows, units};
  CheckShape("gru", "going", in[1].shape, Shape{steps, rows}, "a mark a step and row");
  CheckShape("gru", "h", in[2].shape, state, "a state a row");
  CheckShape("gru", "w", in[3].shape, Shape{3 * units, units}, "three gates of a row a unit");
  CheckShape("gru", "c", in[4].shape, Shape{units}, "a value a unit");
  if (in.size() > 5) CheckShape("gru", "lengths", in[5].shape, Shape{rows}, "a number of steps a row");
  CheckRecurrentTypes("gru", "x", in[0], in, kGruWeights);
  const TensorType all = PlainType(in[0].dtype, Shape{steps, rows, units});
  return {all, PlainType(in[0].dtype, state), PlainType(in[0].dtype, in[0].shape), all};
}

void ForwardGru(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const RecurrentRows r(in[0].type.shape, 3, in[1], in[3], in.size() > 5 ? &in[5] : nullptr);
  std::vector<double>& y = out[0].values;
  std::vector<double>& gates = out[2].values;
  for (const size_t output : {0, 2, 3}) std::ranges::fill(out[output].values, 0.0);
  out[1].values = in[2].values;
  for (int64_t t = 0; t < r.steps(); ++t) {
    for (int64_t row = 0; row < r.rows(); ++row) {
      if (r.HasEnded(t, row)) continue;
      const auto before = [&](int64_t unit) {
        return r.Kept(t, row, t == 0 ? in[2].values[r.At(0, row, unit)] : y[r.At(t - 1, row, unit)]);
      };
      for (int64_t j = 0; j < r.units(); ++j) {
        double sums[] = {0, 0, 0};
        for (int64_t gate = 0; gate < 3; ++gate) {
          for (int64_t k = 0; k < r.units(); ++k) sums[gate] += r.w(gate * r.units() + j, k) * before(k);
        }
        const auto x = [&](int64_t gate) { return in[0].values[r.Gate(t, row, gate, j)]; };
        const double inner = sums[2] + in[4].values[static_cast<size_t>(j)];
        const double reset = ReferenceSigmoid(x(0) + sums[0]);
        const double z = ReferenceSigmoid(x(1) + sums[1]);
        const double n = std::tanh(x(2) + reset * inner);
        gates[r.Gate(t, row, 0, j)] = reset;
        gates[r.Gate(t, row, 1, j)] = z;
        gates[r.Gate(t, row, 2, j)] = n;
        out[3].values[r.At(t, row, j)] = inner;
        y[r.At(t, row, j)] = (1 - z) * n + z * before(j);
        out[1].values[r.At(0, row, j)] = y[r.At(t, row, j)];
      }
    }
  }
}

constexpr size_t kGruResults = 2;  // that are not saved for the gradient

std::vector<TensorType> InferGruForward(const Attributes& attributes, std::span<const TensorType> in) {
  return FirstTypes(InferGru(attributes, in), kGruResults);
}

void GruReferenceForward(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  FirstResults(InferGru, ForwardGru, attributes, in, out);
}

void GruGradient(GradientContext& c) {
  const GraphBuilder& b = c.b();
  const auto given = [&](int output) {
    return c.dy(output) != kNoId ? c.dy(output) : b.Full(b.shape(c.y(output)), 0.0, b.type(c.y(output)).dtype);
  };
  std::vector<ValueId> inputs{given(0), given(1), c.y(2), c.y(3), c.y(0), c.x(1), c.x(2), c.x(3)};
  if (c.input_count() > 5) inputs.push_back(c.x(5));
  if (c.dy(2) != kNoId || c.dy(3) != kNoId) {
    inputs.push_back(given(2));
    inputs.push_back(given(3));
  }
  const std::vector<ValueId> d = b.Add("gru_backward", inputs);
  c.SetDx(0, d[0]);
  c.SetDx(2, d[1]);
  const Shape gates = b.shape(d[2]);
  const ValueId rows = b.Reshape(d[2], Shape{gates[0] * gates[1], gates[2]});
  if (c.wants(3)) {
    const ValueId before = StatesBefore(b, c.y(0), c.x(2), c.x(1));
    c.SetDx(3, b.Add1("matmul", {rows, before}, {{"transpose_a", true}, {"transpose_b", false}}));
  }
  if (c.wants(4)) {
    const ValueId sums = b.Add1("reduce_sum", {rows}, {{"expr", "x0"}, {"axes", Ints{0}}});
    const int64_t units = gates[2] / 3;
    const ValueId flat = b.Reshape(sums, Shape{gates[2]});
    c.SetDx(4, b.Add("slice", {flat}, {{"axis", int64_t{0}}, {"sizes", Ints{2 * units, units}}})[1]);
  }
}

std::vector<TensorType> InferGruBackward(const Attributes&, std::span<const TensorType> in) {
  CheckInputCount("gru_backward", in, 8, 11);
  const auto [steps, rows, units] = CheckGates("gru_backward", "gates", in[2]);
  const Shape gates = in[2].shape;
  const Shape all{steps, rows, units};
  const Shape state{rows, units};
  std::vector<Shape> expected{all, state, gates, all, all, Shape{steps, rows}, state, Shape{3 * units, units}};
  if (in.size() % 2 == 1) expected.push_back(Shape{rows});
  expected.insert(expected.end(), {gates, all});
  for (size_t i = 0; i < in.size(); ++i) {
    CheckShape("gru_backward", StrCat("input ", i), in[i].shape, expected[i], "as the forward pass had it");
  }
  CheckRecurrentTypes("gru_backward", "gates", in[2], in, kGruWeightsBack);
  return {PlainType(in[2].dtype, gates), PlainType(in[2].dtype, state), PlainType(in[2].dtype, gates)};
}

// One unit of a row: from dh its dx and dsums; returns what z passes on of dh.
double GruBackwardUnit(const RecurrentRows& r, std::span<const RefTensor> in, int64_t t, int64_t row, int64_t j,
                       double dh, std::span<RefTensor> out) {
  const auto gate = [&](int64_t g) { return in[2].values[r.Gate(t, row, g, j)]; };
  const bool has_more = in.size() >= 10;
  const auto more = [&](int64_t g) { return has_more ? in[in.size() - 2].values[r.Gate(t, row, g, j)] : 0.0; };
  const double inner = in[3].values[r.At(t, row, j)];
  const double before = r.Kept(t, row, t == 0 ? in[6].values[r.At(0, row, j)] : in[4].values[r.At(t - 1, row, j)]);
  const double dn = (dh * (1 - gate(1)) + more(2)) * (1 - gate(2) * gate(2));
  const double dz = (dh * (before - gate(2)) + more(1)) * gate(1) * (1 - gate(1));
  const double dr = (dn * inner + more(0)) * gate(0) * (1 - gate(0));
  const double dx[] = {dr, dz, dn};
  const double dsums[] = {dr, dz, dn * gate(0) + (has_more ? in.back().values[r.At(t, row, j)] : 0.0)};
  for (int64_t g = 0; g < 3; ++g) {
    out[0].values[r.Gate(t, row, g, j)] = dx[g];
    out[2].values[r.Gate(t, row, g, j)] = dsums[g];
  }
  return dh * gate(1);
}

void BackwardGru(const Attributes&, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const RecurrentRows r(in[2].type.shape, 3, in[5], in[7], in.size() % 2 == 1 ? &in[8] : nullptr);
  for (const size_t output : {0, 2}) std::ranges::fill(out[output].values, 0.0);
  std::vector<double>& dh = out[1].values;
  dh = in[1].values;
  for (int64_t t = r.steps() - 1; t >= 0; --t) {
    for (int64_t row = 0; row < r.rows(); ++row) {
      if (r.HasEnded(t, row)) continue;
      for (int64_t j = 0; j < r.units(); ++j) {
        const size_t at = r.At(0, row, j);
        dh[at] = GruBackwardUnit(r, in, t, row, j, dh[at] + in[0].values[r.At(t, row, j)], out);
      }
      for (int64_t j = 0; j < r.units(); ++j) {
        double sum = dh[r.At(0, row, j)];
        for (int64_t k = 0; k < 3 * r.units(); ++k) sum += out[2].values[r.Gate(t, row, 0, k)] * r.w(k, j);
        dh[r.At(0, row, j)] = r.Kept(t, row, sum);
      }
    }
  }
}

struct GruExample {
  const char* name;
  int64_t steps, rows, units;
  double going_low;     // whole marks from here to 1
  int64_t longest = 0;  // lengths from 0 to it; 0: every row has all steps
};

constexpr GruExample kGruExamples[] = {
    {"cells", 4, 3, 5, 0},          {"one_step", 1, 2, 4, 1},    {"all_new", 2, 3, 4, 0},
    {"many_rows", 3, 29, 7, 0},     {"many_units", 3, 5, 41, 1}, {"one_unit", 5, 1, 1, 0},
    {"wide", 2, 14, 70, 0},         {"lengths", 4, 29, 7, 0, 4}, {"short", 5, 3, 6, 0, 2},
    {"very_short", 3, 30, 3, 1, 1}, {"panels", 3, 29, 64, 0},    {"short_panels", 4, 15, 32, 0, 4},
};

std::vector<OpCase> GruCases() {
  std::vector<OpCase> cases;
  for (const auto& [name, t, n, h, low, longest] : kGruExamples) {
    cases.push_back(
        {.name = name,
         .inputs = {Float32({t, n, 3 * h}), Float32({t, n}), Float32({n, h}), Float32({3 * h, h}), Float32({h})},
         .attributes = {},
         .ranges = {{1, low, 1}}});
    AddLengths(n, longest, cases.back());
  }
  return cases;
}

std::vector<OpCase> GruForwardCases() {
  std::vector<OpCase> cases = GruCases();
  for (OpCase& c : cases) c.attributes.Set("constant_weights", true);
  return cases;
}

std::vector<OpCase> GruBackwardCases() {
  std::vector<OpCase> cases;
  for (const auto& [name, t, n, h, low, longest] : kGruExamples) {
    const TensorType all = Float32({t, n, h});
    const TensorType state = Float32({n, h});
    cases.push_back(
        {.name = name,
         .inputs = {all, state, Float32({t, n, 3 * h}), all, all, Float32({t, n}), state, Float32({3 * h, h})},
         .attributes = {},
         .ranges = {{5, low, 1}}});
    AddLengths(n, longest, cases.back());
  }
  return cases;
}

int64_t GruFlops(const Attributes&, std::span<const TensorType> in, std::span<const TensorType>) {
  const Shape& w = in[in.size() < 8 ? 3 : 7].shape;
  const Shape& gates = in[in.size() < 8 ? 0 : 2].shape;
  return 2 * gates[0] * gates[1] * w.Count();
}

}  // namespace

OpDef GruOp() {
  return {.name = "gru",
          .doc =
              "(x [T,N,3H], going [T,N], h [N,H], w [3H,H], c [H][, lengths [N]]) -> y [T,N,H], the last h [N,H], the "
              "gates r, z, n "
              "[T,N,3H] and what r multiplies [T,N,H] of every step: a gated recurrent unit over T steps.",
          .attributes = {},
          .infer = InferGru,
          .reference = ForwardGru,
          .gradient = GruGradient,
          .may_overwrite = [](const Attributes&, int input, int output) { return input == 0 && output == 2; },
          .precision = Precision::kPrefer16,
          .takes_half = IsInput<kGruWeights>,
          .flops = GruFlops,
          .cases = GruCases};
}

OpDef GruForwardOp() {
  return {.name = "gru_forward",
          .doc =
              "(x [T,N,3H], going [T,N], h [N,H], w [3H,H], c [H][, lengths [N]]) -> y [T,N,H], the last h [N,H]: gru "
              "without what its gradient reads.",
          .attributes = {{"constant_weights", false, "whether w is the same in every run; set by a pass"}},
          .infer = InferGruForward,
          .reference = GruReferenceForward,
          .precision = Precision::kPrefer16,
          .takes_half = IsInput<kGruWeights>,
          .flops = GruFlops,
          .cases = GruForwardCases};
}

OpDef GruBackwardOp() {
  return {.name = "gru_backward",
          .doc =
              "(dy, dh_last, gates, inner, y, going, h, w[, lengths][, dgates, dinner]) -> dx [T,N,3H], dh [N,H], "
              "dsums [T,N,3H]: "
              "the gradient of gru; from dsums, that of the products with the state, follow w's and c's.",
          .attributes = {},
          .infer = InferGruBackward,
          .reference = BackwardGru,
          .may_overwrite = [](const Attributes&, int input, int output) { return input == 2 && output == 0; },
          .precision = Precision::kPrefer16,
          .takes_half = IsInput<kGruWeightsBack>,
          .flops = GruFlops,
          .cases = GruBackwardCases};
}

}  // namespace moka
