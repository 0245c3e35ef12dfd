// Power iterations on the weights seen as a matrix, from the vector kept as a blob; both vectors count as constants in
// the gradient, as in the paper.
#include "layers/types/normalisation/spectral_norm.h"

#include "core/text.h"
#include "layers/net/fields.h"

namespace moka {
namespace {

// [K,1] columns, scaled to length 1.
ValueId UnitColumn(const LayerBuilder& l, ValueId column, double eps) {
  const GraphBuilder& b = l.b();
  const ValueId square = b.Add1("reduce_sum", {column}, {{"expr", std::string("x0*x0")}, {"axes", Ints{0, 1}}});
  return Computed(b, Term::Of(column) / Max(Sqrt(Term::Of(square)), Decimal(eps)));
}

// a b or a^T b of matrices.
ValueId Product(const LayerBuilder& l, ValueId a, ValueId b, bool transpose_a) {
  return l.b().Add1("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", false}});
}

// [outputs, the rest].
ValueId AsMatrix(const LayerBuilder& l, ValueId weights, int axis) {
  const Shape shape = l.b().shape(weights);
  if (axis != 0) {
    Ints order{axis};
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != axis) order.push_back(i);
    }
    weights = l.b().Add1("transpose", {weights}, {{"perm", order}});
  }
  return l.b().Reshape(weights, {shape[axis], shape.Count() / shape[axis]});
}

}  // namespace

ValueId SpectrallyNormal(LayerBuilder& l, ValueId weights, int axis, int index) {
  if (!l.param().has_spectral_norm_param()) return weights;
  const SpectralNormParameter& p = l.param().spectral_norm_param();
  l.Check(p.iterations() >= 1, "spectral_norm_param.iterations",
          StrCat("iterations must be at least 1, found ", p.iterations()));
  const double eps = Finite(l, "spectral_norm_param.eps", p.eps());
  l.Check(eps > 0, "spectral_norm_param.eps", StrCat("eps must be above 0, found ", eps));
  const GraphBuilder& b = l.b();
  const ValueId matrix = AsMatrix(l, weights, axis);
  const int64_t outputs = b.shape(matrix)[0];
  FillerParameter start;
  start.set_type("gaussian");
  start.set_std(1);
  const ValueId state = l.AddBlob(index, {outputs}, start, ParameterRole::kStatistic);

  const ValueId fixed = b.Add1("stop_gradient", {matrix});
  ValueId u = UnitColumn(l, b.Reshape(state, {outputs, 1}), eps);
  ValueId v = UnitColumn(l, Product(l, fixed, u, true), eps);
  if (l.phase() == TRAIN) {
    for (int i = 0; i < p.iterations(); ++i) {
      if (i > 0) v = UnitColumn(l, Product(l, fixed, u, true), eps);
      u = UnitColumn(l, Product(l, fixed, v, false), eps);
    }
    l.Assign(index, b.Reshape(u, {outputs}));
  }
  // The matrix alone has a gradient here: u and v were made of what has none.
  const ValueId sigma = Product(l, b.Add1("stop_gradient", {u}), Product(l, matrix, v, false), true);
  const Shape ones = Spread({1}, 0, b.shape(weights).rank());
  return b.Pointwise("x0/x1", {weights, b.Reshape(sigma, ones)});
}

}  // namespace moka
