// The sum (with coefficients), product or maximum of equal shapes, all bottoms in one expression.
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

std::string Product(int count) {
  std::string text = "x0";
  for (int i = 1; i < count; ++i) text += StrCat("*x", i);
  return text;
}

std::string Sum(const LayerBuilder& l) {
  const EltwiseParameter& p = l.param().eltwise_param();
  std::string text;
  for (int i = 0; i < l.bottom_count(); ++i) {
    const double coeff = p.coeff_size() == 0 ? 1 : Finite(l, StrCat("eltwise_param.coeff[", i, "]"), p.coeff(i));
    text += i == 0 ? "" : "+";
    text += coeff == 1 ? StrCat("x", i) : StrCat(Number(coeff), "*x", i);
  }
  return text;
}

// The last bottom holds a factor for each image of each other bottom, one bottom's after another's.
void BuildWithFactors(LayerBuilder& l, const std::vector<ValueId>& bottoms) {
  const EltwiseParameter& p = l.param().eltwise_param();
  const GraphBuilder& b = l.b();
  const int terms = static_cast<int>(bottoms.size());
  const Shape x = l.shape(0);
  l.Check(p.operation() == EltwiseParameter::SUM, "eltwise_param.coeff_blob",
          "eltwise_param.coeff_blob is only for operation SUM");
  l.Check(terms >= 1, "bottom", "with coeff_blob there must be a term before the factors, found 1 bottom");
  l.Check(
      p.coeff_size() == 0 || p.coeff_size() == terms, "eltwise_param.coeff",
      StrCat("eltwise_param.coeff is given ", p.coeff_size(), " times for ", terms, " terms; give one a term or none"));
  l.Check(x.rank() >= 1 && l.shape(terms).Count() == terms * x[0], StrCat("bottom[", terms, "]"),
          StrCat("with coeff_blob the last bottom must hold a factor for each of the ", x[0], " images of each of the ",
                 terms, " others, found ", l.shape(terms).ToString()));
  const ValueId rows = b.Reshape(b.Add1("stop_gradient", {l.bottom(terms)}), {terms, x[0]});
  std::vector<ValueId> factors{rows};
  if (terms > 1) {
    factors = b.Add("slice", {rows}, {{"axis", int64_t{0}}, {"sizes", Ints(static_cast<size_t>(terms), 1)}});
  }
  std::vector<ValueId> inputs;
  std::string text;
  for (int i = 0; i < terms; ++i) {
    const double coeff = p.coeff_size() == 0 ? 1 : Finite(l, StrCat("eltwise_param.coeff[", i, "]"), p.coeff(i));
    text += StrCat(i == 0 ? "" : "+", Number(coeff), "*x", 2 * i, "*x", 2 * i + 1);
    inputs.push_back(bottoms[static_cast<size_t>(i)]);
    inputs.push_back(b.Reshape(factors[static_cast<size_t>(i)], Spread({x[0]}, 0, x.rank())));
  }
  l.SetTop(0, b.Pointwise(text, inputs));
}

// max would give no gradient where values tie; Caffe takes x1 when x0 = x1, and a later one only when it is larger.
std::string Maximum(int count) {
  if (count == 1) return "x0";
  std::string text;
  std::string largest = "select(gt(x0,x1),x0,x1)";
  for (int i = 2; i < count; ++i) {
    text += StrCat("t", i, "=", largest, ";");
    largest = StrCat("select(gt(x", i, ",t", i, "),x", i, ",t", i, ")");
  }
  return text + largest;
}

// The shapes are one but for axes of 1 at the end, which all blobs of Caffe's first years had.
bool IsSameButForOnes(const Shape& a, const Shape& b) {
  const int rank = std::min(a.rank(), b.rank());
  for (int i = 0; i < rank; ++i) {
    if (a[i] != b[i]) return false;
  }
  return a.Count() == b.Count();
}

void BuildEltwise(LayerBuilder& l) {
  const EltwiseParameter& p = l.param().eltwise_param();
  const Shape shape = l.shape(0);
  const int terms = l.bottom_count() - (p.coeff_blob() ? 1 : 0);
  std::vector<ValueId> bottoms;
  for (int i = 0; i < terms; ++i) {
    const Shape own = l.shape(i);
    if (i == 1 && own.rank() == 0 && !p.coeff_blob()) {  // Synopsys: one number, for every element
      bottoms.push_back(l.bottom(i));
      continue;
    }
    l.Check(IsSameButForOnes(own, shape), StrCat("bottom[", i, "]"),
            StrCat("all bottoms must have one shape, found \"", l.param().bottom(0), "\" ", shape.ToString(), " and \"",
                   l.param().bottom(i), "\" ", own.ToString()));
    bottoms.push_back(own == shape ? l.bottom(i) : l.b().Reshape(l.bottom(i), shape));
  }
  if (p.coeff_blob()) return BuildWithFactors(l, bottoms);
  l.Check(p.coeff_size() == 0 || p.coeff_size() == l.bottom_count(), "eltwise_param.coeff",
          StrCat("eltwise_param.coeff is given ", p.coeff_size(), " times for ", l.bottom_count(),
                 " bottoms; give one a bottom or none"));
  l.Check(p.coeff_size() == 0 || p.operation() == EltwiseParameter::SUM, "eltwise_param.coeff",
          "eltwise_param.coeff is only for operation SUM");
  std::string text;
  switch (p.operation()) {
    case EltwiseParameter::PROD: text = Product(l.bottom_count()); break;
    case EltwiseParameter::SUM: text = Sum(l); break;
    case EltwiseParameter::MAX: text = Maximum(l.bottom_count()); break;
  }
  l.SetTop(0, l.b().Pointwise(text, bottoms));
}

}  // namespace

LayerDef EltwiseLayer() {
  return {
      .type = "Eltwise",
      .doc =
          "PROD, SUM (times coeff, one a bottom) or MAX of bottoms of one shape, which is the top's: that of the "
          "first, where others differ by axes of 1 at the end and the second may be one number. Where bottoms tie for "
          "the MAX the gradient goes where Caffe sends it: the second of the first two, else the earliest.",
      .min_bottoms = 1,
      .max_bottoms = -1,
      .build = BuildEltwise,
      .page = {
          .params = {"eltwise_param"},
          .formula =
              "y has the bottoms' shape. SUM (the default): `y = coeff[0]*x0 + coeff[1]*x1 + ...`, each coeff 1 unless "
              "one a bottom is given. PROD: `y = x0 * x1 * ...`. MAX: the largest of the bottoms' elements.\n\nWith "
              "coeff_blob the last bottom is no term: it holds factors `[terms, N]`, and `y_n = sum of coeff[i] * "
              "f[i,n] * x_i,n`.",
          .gradient =
              "SUM: `dx_i = coeff[i] * dy`. PROD: `dx_i = dy` times the product of the other bottoms. MAX: dy goes to "
              "one bottom, the earliest that has the largest value, but bottom 1 where bottoms 0 and 1 both have it. "
              "The factors of coeff_blob get none.",
          .source = "BVLC Caffe's eltwise_layer; a number as the second bottom is Synopsys's. stable_prod_grad is read "
                    "and ignored: the product's gradient never divides. "
                    "Caffe asks for two bottoms; nets of FlowNet's fork have one.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "sum"
  type: "Eltwise"
  bottom: "a"
  bottom: "b"
  top: "sum"
  eltwise_param { operation: SUM coeff: 1 coeff: -0.5 }
})"}};
}

}  // namespace moka
