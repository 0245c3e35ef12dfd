// Sums over the last axes: of x, |x| or x^2, or their mean; times coeff.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const ReductionParameter& p = l.param().reduction_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "reduction_param.axis", p.axis(), x);
  const auto operation = p.operation();
  double coeff = Finite(l, "reduction_param.coeff", p.coeff());
  if (operation == ReductionParameter::MEAN) coeff /= static_cast<double>(x.Count(axis, x.rank()));
  const std::string term = operation == ReductionParameter::ASUM    ? "abs(x0)"
                           : operation == ReductionParameter::SUMSQ ? "x0*x0"
                                                                    : "x0";
  Ints axes;
  for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
  const ValueId sum = l.b().Add1("reduce_sum", {l.bottom(0)}, {{"expr", term}, {"axes", axes}});
  const ValueId y = l.b().Reshape(sum, Part(x, 0, axis));
  l.SetTop(0, coeff == 1 ? y : l.b().Pointwise(StrCat("x0*", Number(coeff)), {y}));
}

}  // namespace

LayerDef ReductionLayer() {
  return {
      .type = "Reduction",
      .doc = "SUM, ASUM (of absolute values), SUMSQ (of squares) or MEAN over axis and all later axes, times coeff.",
      .build = Build};
}

}  // namespace moka
