// The sum (with coefficients), product or maximum of equal shapes, all bottoms in one expression.
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

Term Product(int count) {
  Term product = Term::Input(0);
  for (int i = 1; i < count; ++i) product = product * Term::Input(static_cast<size_t>(i));
  return product;
}

// Times bottom i's coefficient.
Term Weighed(const LayerBuilder& l, int i, const Term& x) {
  const EltwiseParameter& p = l.param().eltwise_param();
  const double coeff = p.coeff_size() == 0 ? 1 : Finite(l, StrCat("eltwise_param.coeff[", i, "]"), p.coeff(i));
  return coeff == 1 ? x : Decimal(coeff) * x;
}

Term Sum(const LayerBuilder& l) {
  Term sum = 0;
  for (int i = 0; i < l.bottom_count(); ++i) {
    const Term part = Weighed(l, i, Term::Input(static_cast<size_t>(i)));
    sum = i == 0 ? part : sum + part;
  }
  return sum;
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
  Term sum = 0;
  for (int i = 0; i < terms; ++i) {
    const ValueId factor = b.Reshape(factors[static_cast<size_t>(i)], Spread({x[0]}, 0, x.rank()));
    const Term part = Weighed(l, i, Term::Of(bottoms[static_cast<size_t>(i)])) * Term::Of(factor);
    sum = i == 0 ? part : sum + part;
  }
  l.SetTop(0, sum);
}

// max would give no gradient where values tie; Caffe takes x1 when x0 = x1, and a later one only when it is larger.
Term Maximum(int count) {
  Term largest = Term::Input(0);
  for (int i = 1; i < count; ++i) {
    const Term x = Term::Input(static_cast<size_t>(i));
    largest = i == 1 ? Select(largest > x, largest, x) : Select(x > largest, x, largest);
  }
  return largest;
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
  switch (p.operation()) {
    case EltwiseParameter::PROD: return l.SetTop(0, l.b().Pointwise(Product(l.bottom_count()), bottoms));
    case EltwiseParameter::SUM: return l.SetTop(0, l.b().Pointwise(Sum(l), bottoms));
    case EltwiseParameter::MAX: return l.SetTop(0, l.b().Pointwise(Maximum(l.bottom_count()), bottoms));
  }
}

// One shape for all: that of the reference, or if that asks nothing of a data top the other one.
void NeedsOfEltwise(const ShapeReader& reader) {
  const Shape* reference = reader.Reference();
  if (reference == nullptr) return;
  bool is_asked = false;
  for (int b = 0; b < reader.bottom_count(); ++b) {
    const Shape* shape = reader.bottom(b);
    if (shape == nullptr || *shape != *reference) is_asked = reader.Require(b, *reference) || is_asked;
  }
  if (is_asked || !reader.has_failed()) return;
  for (int b = 0; b < reader.bottom_count(); ++b) {
    const Shape* other = reader.bottom(b);
    if (other == nullptr || *other == *reference) continue;
    for (int a = 0; a < reader.bottom_count(); ++a) {
      const Shape* shape = reader.bottom(a);
      if (shape != nullptr && *shape == *reference) reader.Require(a, *other);
    }
    return;
  }
}

}  // namespace

LayerDef EltwiseLayer() {
  return {.type = "Eltwise",
          .min_bottoms = 1,
          .max_bottoms = -1,
          .build = BuildEltwise,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .needs = NeedsOfEltwise,
          .params = {"eltwise_param"}};
}

}  // namespace moka
