// Layer normalisation (Ba, Kiros and Hinton, arXiv 1607.06450): mean 0 and variance 1 over the last axes, then a scale
// and a shift of each of their elements.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildLayerNorm(LayerBuilder& l) {
  const LayerNormParameter& p = l.param().layer_norm_param();
  const GraphBuilder& b = l.b();
  const Shape shape = l.shape(0);
  const int axis = AxisOf(l, "layer_norm_param.axis", p.axis(), shape);
  const double eps = Finite(l, "layer_norm_param.eps", p.eps());
  l.Check(eps > 0, "layer_norm_param.eps", StrCat("layer_norm_param.eps must be above 0, found ", eps));
  Ints axes;
  std::vector<int64_t> dims;
  for (int i = axis; i < shape.rank(); ++i) {
    axes.push_back(i);
    dims.push_back(shape[i]);
  }
  const Term x = l.Bottom(0);
  const auto count = static_cast<double>(shape.Count(axis, shape.rank()));
  const Term mean = Term::Of(Computed(b, Term::Of(Summed(b, x, axes)) / count));
  const ValueId squares = Summed(b, Square(x - mean), axes);
  const Term inverse = Term::Of(Computed(b, 1 / Sqrt(Term::Of(squares) / count + Decimal(eps))));
  Term y = (x - mean) * inverse;
  if (p.affine()) {
    FillerParameter one;
    one.set_value(1);
    const auto blob = [&](int index, const FillerParameter& filler) {
      const ValueId value = l.AddBlob(index, Shape(dims), filler, ParameterRole::kNorm);
      return Term::Of(b.Reshape(value, Spread(Shape(dims), axis, shape.rank())));
    };
    const Term scale = blob(0, one);
    const Term shift = blob(1, {});
    y = y * scale + shift;
  }
  l.SetTop(0, y);
}

}  // namespace

LayerDef LayerNormLayer() { return {.type = "LayerNorm", .build = BuildLayerNorm, .params = {"layer_norm_param"}}; }

}  // namespace moka
