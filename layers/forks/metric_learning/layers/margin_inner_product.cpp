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

// psi of c = cos(theta), named c, for m from 1 to 4, as an expression; sign(0) is 0 as in the original.
std::string Psi(int m) {
  switch (m) {
    case 2: return "2*sign(t0)*t0*t0-1";
    case 3: return "sign(abs(t0)-0.5)*(4*t0*t0*t0-3*t0)+sign(t0)*(1+sign(abs(t0)-0.5))-2";
    case 4: return "sign(t0)*sign(2*t0*t0-1)*(8*t0*t0*t0*t0-8*t0*t0+1)+2*sign(t0)+sign(t0)*sign(2*t0*t0-1)-3";
    default: return "t0";
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
  const std::string base = Number(Finite(l, prefix + "base", p.base()));
  const std::string gamma = Number(Finite(l, prefix + "gamma", p.gamma()));
  const std::string power = Number(-Finite(l, prefix + "power", p.power()));
  const std::string least = Number(Finite(l, prefix + "lambda_min", p.lambda_min()));
  l.Check(p.gamma() >= 0, prefix + "gamma", StrCat(prefix, "gamma must not be negative, found ", p.gamma()));
  l.Check(p.lambda_min() >= 0, prefix + "lambda_min",
          StrCat(prefix, "lambda_min must not be negative, found ", p.lambda_min()));
  return l.b().Pointwise(StrCat("max(", base, "*pow(1+", gamma, "*x0,", power, "),", least, ")"),
                         {Constant(l, iteration)});
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
    const std::string text = StrCat("t0=select(gt(x1,0),x0/x1,0);(select(x2,x1*(", Psi(m), "),x0)+x3*x0)/(1+x3)");
    y = b.Pointwise(text, {product, norm, mask, lambda});
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
  return {
      .type = "LargeMarginInnerProduct",
      .doc =
          "The output layer of Large-Margin Softmax. Bottoms: features, from largemargin_inner_product_param.axis on "
          "one "
          "vector, and labels. Top [..., num_output]: W_k . x for the rows W_k of the weights [num_output, D]; at the "
          "label it is (|W_k| |x| psi + lambda W_k . x) / (1 + lambda), psi falling as cos(m theta), m from 1 (type "
          "SINGLE) to 4 (QUADRUPLE). lambda = max(lambda_min, base (1 + gamma iteration)^-power); an optional second "
          "top "
          "holds it. Blob 1 counts the iterations, from iteration on.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .build = BuildLargeMargin,
      .page = {.params = {"largemargin_inner_product_param"},
               .formula =
                   "x's axes from axis (default 1) on are one vector of D elements; W (blob 0) is [num_output, D]. "
                   "`y[k] = W_k . x`, but for the label k `y[k] = (|W_k| |x| psi(cos_k) + lambda * W_k . x) / (1 + "
                   "lambda)` with `cos_k = W_k . x / (|W_k| |x|)`.\n\n`psi = (-1)^j * cos(m * theta) - 2*j` for theta "
                   "from `j*pi/m` to `(j+1)*pi/m`; m is 1, 2, 3, 4 for SINGLE (the default), DOUBLE, TRIPLE, "
                   "QUADRUPLE.\n\n`lambda = max(lambda_min, base * (1 + gamma * t)^-power)`; t, blob 1, a scalar, "
                   "starts at iteration and grows by 1 before each TRAIN run. Top 1, if there is one, is lambda [1].",
               .gradient = "The derivative of the formula, for x and W. At the corners of psi (where sign(0) stands in "
                           "it) the sign's derivative is 0. Labels, lambda and t get none.",
               .source = "Large-margin softmax loss for convolutional neural networks (Liu et al., arXiv 1612.02295); "
                         "largemargin_inner_product_layer of its Caffe. There t counts the runs of each net in both "
                         "phases and is not kept; here it counts those in TRAIN and is a blob.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "fc"
  type: "LargeMarginInnerProduct"
  bottom: "x"
  bottom: "label"
  top: "fc"
  top: "lambda"
  largemargin_inner_product_param {
    num_output: 5 type: DOUBLE weight_filler { type: "xavier" } base: 1000 gamma: 0.00002 power: 45
  }
})"}};
}

LayerDef MarginInnerProductLayer() {
  return {
      .type = "MarginInnerProduct",
      .doc =
          "SphereFace's output layer. Bottoms: features, from margin_inner_product_param.axis on one vector, and "
          "labels. Top [..., num_output]: |x| cos(theta_k), theta_k the angle to row k of the weights [num_output, "
          "D]; at the label it is |x| (psi + lambda cos) / (1 + lambda), psi falling as cos(m theta), m from 1 "
          "(type SINGLE) to 4 (QUADRUPLE). lambda = max(lambda_min, base (1 + gamma iteration)^-power); an optional "
          "second top holds it. Blob 1 counts the iterations, from iteration on. Gradients are exact (the "
          "original's are approximations).",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .build = BuildMargin,
      .page = {
          .params = {"margin_inner_product_param"},
          .formula = "x's axes from axis (default 1) on are one vector of D elements; W (blob 0) is [num_output, D]. "
                     "With `cos_k = x . W_k / (|x| |W_k|)` (0 where x or W_k is 0): `y[k] = |x| * cos_k`, but for the "
                     "label k `y[k] = |x| * (psi(cos_k) + lambda * cos_k) / (1 + lambda)`. y is x's dimensions before "
                     "axis, then num_output.\n\n`psi = (-1)^j * cos(m * theta) - 2*j` for theta from `j*pi/m` to "
                     "`(j+1)*pi/m`; m is 1, 2, 3, 4 for SINGLE (the default), DOUBLE, TRIPLE, QUADRUPLE.\n\n`lambda = "
                     "max(lambda_min, base * (1 + gamma * t)^-power)`; t, blob 1, a scalar, starts at iteration and "
                     "grows by 1 before each TRAIN run. Top 1, if there is one, is lambda [1].",
          .gradient = "The derivative of the formula, for x and W: through cos, psi and both lengths. At the corners "
                      "of psi (where sign(0) stands in it) the sign's derivative is 0. Labels, lambda and t get none.",
          .source =
              "SphereFace: deep hypersphere embedding for face recognition (Liu et al., arXiv 1704.08063); "
              "SphereFace's Caffe, margin_inner_product_layer. The original sends a shortened gradient to x and "
              "none through psi or the normalisation to the weights, which it normalises in place; here every "
              "gradient is the derivative of the forward pass and the blob keeps its length. iter_size must be 1.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 6 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "fc"
  type: "MarginInnerProduct"
  bottom: "x"
  bottom: "label"
  top: "fc"
  top: "lambda"
  margin_inner_product_param {
    num_output: 5 type: QUADRUPLE weight_filler { type: "xavier" }
    base: 1000 gamma: 0.12 power: 1 lambda_min: 5
  }
})"}};
}

}  // namespace moka
