// The angular margin of SphereFace (Liu et al., arXiv 1704.08063): y = |x| cos(theta_k) with unit weights, but at the
// label |x| psi(theta), psi = (-1)^k cos(m theta) - 2k, blended as (psi + lambda cos) / (1 + lambda) with a lambda that
// falls with the iteration. The original sends a shortened gradient to x and none through psi or the normalisation to
// the weights, which it normalises in place; here every gradient is the derivative of the forward pass and the blob
// keeps its length. Large-Margin Softmax (Liu et al., arXiv 1612.02295), from which it comes, is the same with weights
// of any length: |W_k| |x| stands where |x| does.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// psi of c = cos(theta), for m from 1 to 4; sign(0) is 0 as in the original.
Term Psi(const Term& c, int m) {
  const Term half = Sign(Abs(c) - 0.5);
  const Term quarter = Sign(2 * c * c - 1);
  switch (m) {
    case 2: return 2 * Sign(c) * c * c - 1;
    case 3: return half * (4 * c * c * c - 3 * c) + Sign(c) * (1 + half) - 2;
    case 4: return Sign(c) * quarter * (8 * c * c * c * c - 8 * c * c + 1) + 2 * Sign(c) + Sign(c) * quarter - 3;
    default: return c;
  }
}

// max(lambda_min, base * (1 + gamma * iteration)^-power); the iteration is a running number.
template <class Parameter>
ValueId Lambda(LayerBuilder& l, const Parameter& p, const std::string& prefix) {
  FillerParameter start;
  start.set_value(static_cast<float>(p.iteration()));
  ValueId iteration = l.AddBlob(1, {}, start, ParameterRole::kStatistic);
  if (l.phase() == TRAIN) {
    iteration = l.b().Pointwise("x0+1", {iteration});
    l.Assign(1, iteration);
  }
  const Term base = Decimal(Finite(l, prefix + "base", p.base()));
  const Term gamma = Decimal(Finite(l, prefix + "gamma", p.gamma()));
  const Term power = Decimal(-Finite(l, prefix + "power", p.power()));
  const Term least = Decimal(Finite(l, prefix + "lambda_min", p.lambda_min()));
  l.Check(p.gamma() >= 0, prefix + "gamma", StrCat(prefix, "gamma must not be negative, found ", p.gamma()));
  l.Check(p.lambda_min() >= 0, prefix + "lambda_min",
          StrCat(prefix, "lambda_min must not be negative, found ", p.lambda_min()));
  return Computed(l.b(), Max(base * Pow(1 + gamma * Term::Of(Constant(l, iteration)), power), least));
}

// The weights with rows of length 1; a row of zeros stays one.
ValueId UnitRows(const LayerBuilder& l, ValueId weight) {
  const ValueId square = l.b().Add1("reduce_sum", {weight}, {{"expr", std::string("x0*x0")}, {"axes", Ints{1}}});
  return l.b().Pointwise("select(gt(x1,0),x0/sqrt(x1),0)", {weight, square});
}

// |x|, or |W_k| of each row: [rows,1].
ValueId Length(const LayerBuilder& l, ValueId rows) {
  const ValueId square = l.b().Add1("reduce_sum", {rows}, {{"expr", std::string("x0*x0")}, {"axes", Ints{1}}});
  return l.b().Pointwise("select(gt(x0,0),sqrt(x0),0)", {square});
}

template <class Parameter>
void BuildMarginInnerProduct(LayerBuilder& l, const Parameter& p, const std::string& prefix, bool has_unit_weights) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, prefix + "axis", p.axis(), x);
  const int64_t rows = x.Count(0, axis);
  const int64_t length = x.Count(axis, x.rank());
  const int64_t outputs = p.num_output();
  l.Check(outputs >= 1, prefix + "num_output", "num_output must be given and at least 1");
  l.Check(l.shape(1).Count() == rows, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have ", rows, " labels, found ", l.shape(1).ToString()));
  const ValueId weight =
      l.AddBlob(0, {outputs, length}, p.weight_filler(), ParameterRole::kWeight, prefix + "weight_filler");
  const ValueId lambda = Lambda(l, p, prefix);
  const ValueId flat = b.Reshape(l.bottom(0), {rows, length});
  const ValueId product = b.Add1("matmul", {flat, has_unit_weights ? UnitRows(l, weight) : weight},
                                 {{"transpose_a", false}, {"transpose_b", true}});
  ValueId y = product;
  const int m = static_cast<int>(p.type()) + 1;
  if (m > 1) {
    ValueId norm = Length(l, flat);
    if (!has_unit_weights) norm = b.Pointwise("x0*x1", {norm, b.Reshape(Length(l, weight), {1, outputs})});
    const ValueId mask =
        b.Add1("label_mask", {Constant(l, l.bottom(1))}, {{"shape", Ints{rows, outputs}}, {"axis", int64_t{1}}});
    const Term plain = Term::Of(product);
    const Term size = Term::Of(norm);
    const Term cosine = Select(size > 0, plain / size, 0);
    const Term wanted = Select(Term::Of(mask), size * Psi(cosine, m), plain);
    const Term mixed = (wanted + Term::Of(lambda) * plain) / (1 + Term::Of(lambda));
    y = Computed(b, mixed, {product, norm, mask, lambda});
  }
  l.SetTop(0, b.Reshape(y, Joined(Part(x, 0, axis), {outputs})));
  if (l.top_count() > 1) l.SetTop(1, b.Reshape(lambda, {1}));
}

void BuildMargin(LayerBuilder& l) {
  const uint32_t iter_size = l.param().margin_inner_product_param().iter_size();
  l.Check(iter_size == 1, "margin_inner_product_param.iter_size",
          StrCat("only an iter_size of 1 is part of Moka, found ", iter_size));
  BuildMarginInnerProduct(l, l.param().margin_inner_product_param(), "margin_inner_product_param.", true);
}
void BuildLargeMargin(LayerBuilder& l) {
  BuildMarginInnerProduct(l, l.param().largemargin_inner_product_param(), "largemargin_inner_product_param.", false);
}

}  // namespace

LayerDef LargeMarginInnerProductLayer() {
  return {.type = "LargeMarginInnerProduct",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = BuildLargeMargin,
          .params = {"largemargin_inner_product_param"}};
}

LayerDef MarginInnerProductLayer() {
  return {.type = "MarginInnerProduct",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .build = BuildMargin,
          .params = {"margin_inner_product_param"}};
}

}  // namespace moka
