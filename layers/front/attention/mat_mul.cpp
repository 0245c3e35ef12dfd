// Matrix products of two bottoms, one for each index of the axes before the last two.
#include "core/text.h"
#include "layers/front/attention/layers.h"
#include "layers/front/fields.h"

namespace moka {
namespace {

void BuildMatMul(LayerBuilder& l) {
  const MatMulParameter& p = l.param().mat_mul_param();
  const Shape a = l.shape(0);
  const Shape b = l.shape(1);
  const int r = a.rank();
  l.Check(r >= 2, "bottom[0]", StrCat("the bottoms are matrices, found ", a.ToString()));
  bool fits = b.rank() == r;
  for (int i = 0; fits && i < r - 2; ++i) fits = a[i] == b[i];
  l.Check(fits, "bottom[1]",
          StrCat("the bottoms ", a.ToString(), " and ", b.ToString(), " must agree in all axes but the last two"));
  const int64_t columns = a[p.transpose_a() ? r - 2 : r - 1];
  const int64_t rows = b[p.transpose_b() ? r - 1 : r - 2];
  l.Check(columns == rows, "bottom[1]",
          StrCat("a ", a.ToString(), p.transpose_a() ? " transposed" : "", " has ", columns, " columns, but b ",
                 b.ToString(), p.transpose_b() ? " transposed" : "", " has ", rows, " rows"));
  const ValueId y = l.b().Add1("matmul", {l.bottom(0), l.bottom(1)},
                               {{"transpose_a", p.transpose_a()}, {"transpose_b", p.transpose_b()}});
  const double scale = Finite(l, "mat_mul_param.scale", p.scale());
  l.SetTop(0, scale == 1 ? y : l.b().Pointwise(StrCat("x0*", Number(scale)), {y}));
}

}  // namespace

LayerDef MatMulLayer() {
  return {
      .type = "MatMul",
      .doc =
          "The product of two bottoms [..,m,k] and [..,k,n] as matrices of their last two axes, one for each index "
          "of those before, which must be equal; transpose_a and transpose_b take a bottom's last two axes in the "
          "other order, scale multiplies the product.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .build = BuildMatMul,
      .page = {
          .params = {"mat_mul_param"},
          .formula = "`y[..,i,j] = scale * sum over k of a[..,i,k] * b[..,k,j]`; y is `[..,m,n]`. a is stored "
                     "`[..,k,m]` with transpose_a, b `[..,n,k]` with transpose_b.",
          .gradient = "`da = scale * dy b^T` and `db = scale * a^T dy` for each index of the axes before, in the order "
                      "that the bottom is stored in.",
          .source = "Moka's own, as numpy's matmul without broadcasting; attention's products (Bahdanau et al., arXiv "
                    "1409.0473; Vaswani et al., arXiv 1706.03762, where scale is `1 / sqrt(k)`).",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 5 dim: 4 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 dim: 4 } } }
layer { name: "y" type: "MatMul" bottom: "a" bottom: "b" top: "y" mat_mul_param { transpose_b: true scale: 0.5 } })"}};
}

}  // namespace moka
