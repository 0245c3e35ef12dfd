// y = op(a) * op(b) (+ bias), op(a) [..,m,k], op(b) [..,k,n], y [..,m,n]; optionally a ReLU.
#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "graph/op.h"
#include "layers/ops/cases.h"
#include "layers/ops/checks.h"
#include "layers/ops/gradients.h"

namespace moka {
namespace {

struct MatmulSizes {
  int64_t batch, m, k, n;
};

MatmulSizes ReadSizes(const Attributes& attributes, const Shape& a, const Shape& b) {
  const int r = a.rank();
  const bool ta = attributes.Bool("transpose_a");
  const bool tb = attributes.Bool("transpose_b");
  const bool ranks = r >= 2 && b.rank() == r;
  const bool batch = ranks && std::ranges::equal(a.dims().first(static_cast<size_t>(r - 2)),
                                                 b.dims().first(static_cast<size_t>(r - 2)));
  if (!batch || a[ta ? r - 2 : r - 1] != b[tb ? r - 1 : r - 2]) {
    throw Error(ErrorKind::kConfig,
                StrCat("matmul: cannot multiply a ", a.ToString(), ta ? " transposed" : "", " by b ", b.ToString(),
                       tb ? " transposed" : "", "; leading dimensions and the inner one must agree"));
  }
  return {a.Count(0, r - 2), a[ta ? r - 1 : r - 2], a[ta ? r - 2 : r - 1], b[tb ? r - 2 : r - 1]};
}

std::vector<TensorType> InferMatmul(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount("matmul", in, 2, 3);
  CheckFloat("matmul", "a", in[0]);
  CheckSameDType("matmul", "a", in[0], "b", in[1]);
  CheckActivation("matmul", attributes);
  const MatmulSizes s = ReadSizes(attributes, in[0].shape, in[1].shape);
  if (in.size() == 3) {
    CheckFloat("matmul", "bias", in[2]);
    CheckShape("matmul", "bias", in[2].shape, Shape{s.n}, "one value a column");
  }
  const int r = in[0].shape.rank();
  return {PlainType(in[0].dtype, in[0].shape.With(r - 2, s.m).With(r - 1, s.n))};
}

void MatmulReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const auto [batch, m, k, n] = ReadSizes(attributes, in[0].type.shape, in[1].type.shape);
  const bool ta = attributes.Bool("transpose_a");
  const bool tb = attributes.Bool("transpose_b");
  const bool relu = attributes.String("activation") == "relu";
  for (int64_t o = 0; o < batch * m * n; ++o) {
    const int64_t t = o / (m * n);
    const int64_t i = o / n % m;
    const int64_t j = o % n;
    double sum = in.size() == 3 ? in[2].values[static_cast<size_t>(j)] : 0;
    for (int64_t p = 0; p < k; ++p) {
      const int64_t a = t * m * k + (ta ? p * m + i : i * k + p);
      const int64_t b = t * k * n + (tb ? j * k + p : p * n + j);
      sum += in[0].values[static_cast<size_t>(a)] * in[1].values[static_cast<size_t>(b)];
    }
    out[0].values[static_cast<size_t>(o)] = relu ? std::max(sum, 0.0) : sum;
  }
}

void MatmulGradient(GradientContext& c) {
  const bool ta = c.attributes().Bool("transpose_a");
  const bool tb = c.attributes().Bool("transpose_b");
  const ValueId dy = c.attributes().String("activation") == "relu" ? ReluMasked(c.b(), c.dy(0), c.y(0)) : c.dy(0);
  const auto product = [&](ValueId a, bool transpose_a, ValueId b, bool transpose_b) {
    return c.b().Add1("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  };
  if (c.wants(0)) c.SetDx(0, ta ? product(c.x(1), tb, dy, true) : product(dy, false, c.x(1), !tb));
  if (c.wants(1)) c.SetDx(1, tb ? product(dy, true, c.x(0), ta) : product(c.x(0), !ta, dy, false));
  if (c.input_count() == 3 && c.wants(2)) c.SetDx(2, SumAllBut(c.b(), dy, c.b().shape(dy).rank() - 1));
}

Attributes MatmulCase(bool transpose_a, bool transpose_b, std::string activation = "") {
  return {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}, {"activation", std::move(activation)}};
}

Attributes MatmulConstant(Attributes attributes) {
  attributes.Set("constant_weights", true);
  return attributes;
}

std::vector<OpCase> MatmulCases() {
  return {
      {"plain", {Float32({5, 7}), Float32({7, 3})}, MatmulCase(false, false)},
      {"inner_product", {Float32({4, 33}), Float32({17, 33}), Float32({17})}, MatmulCase(false, true)},
      {"transpose_a", {Float32({7, 5}), Float32({7, 3})}, MatmulCase(true, false)},
      {"transpose_both", {Float32({7, 5}), Float32({3, 7})}, MatmulCase(true, true)},
      {"batched", {Float32({2, 3, 5, 4}), Float32({2, 3, 4, 6})}, MatmulCase(false, false)},
      {"batched_transposed", {Float32({3, 4, 5}), Float32({3, 6, 4}), Float32({6})}, MatmulCase(true, true)},
      {"relu", {Float32({5, 7}), Float32({7, 3}), Float32({3})}, MatmulCase(false, false, "relu")},
      {"long", {Float32({257, 70}), Float32({70, 100})}, MatmulCase(false, false)},
      {"constant", {Float32({257, 70}), Float32({70, 100})}, MatmulConstant(MatmulCase(false, false))},
      {"constant_transposed",
       {Float32({300, 70}), Float32({65, 70}), Float32({65})},
       MatmulConstant(MatmulCase(false, true))},
      {"long_transposed", {Float32({70, 300}), Float32({65, 70}), Float32({65})}, MatmulCase(true, true, "relu")},
      {"wide", {Float32({5, 70}), Float32({300, 70}), Float32({300})}, MatmulCase(false, true, "relu")},
      {"wide_plain", {Float32({5, 70}), Float32({70, 300}), Float32({300})}, MatmulCase(false, false)},
      {"many", {Float32({2, 37, 3, 4}), Float32({2, 37, 4, 5}), Float32({5})}, MatmulCase(false, false)},
      {"many_transposed", {Float32({37, 4, 3}), Float32({37, 5, 4})}, MatmulCase(true, true)},
      {"few_long", {Float32({2, 130, 9}), Float32({2, 9, 40}), Float32({40})}, MatmulCase(false, false)},
      {"few_wide", {Float32({3, 9, 5}), Float32({3, 200, 9}), Float32({200})}, MatmulCase(true, true)},
      {"one_row", {Float32({1, 9}), Float32({9, 1})}, MatmulCase(false, false)},
  };
}

}  // namespace

OpDef MatmulOp() {
  return {.name = "matmul",
          .doc = "(a, b[, bias [n]]) -> y [..,m,n]: matrix product, batched over equal leading dimensions.",
          .attributes = {{"transpose_a", false, "whether a is stored [..,k,m]"},
                         {"transpose_b", false, "whether b is stored [..,n,k]"},
                         {"activation", std::string(), "\"\" or \"relu\", applied last"},
                         {"constant_weights", false, "whether b is the same in every run; set by a pass"}},
          .infer = InferMatmul,
          .reference = MatmulReference,
          .gradient = MatmulGradient,
          .precision = Precision::kPrefer16,
          .flops =
              [](const Attributes& attributes, std::span<const TensorType> in, std::span<const TensorType> out) {
                return (Size(2) * out[0].shape.Count() * ReadSizes(attributes, in[0].shape, in[1].shape).k).value();
              },
          .cases = MatmulCases};
}

}  // namespace moka
