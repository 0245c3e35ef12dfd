// Sums over the last axes: of x, |x|, x^2 or the k largest, or their mean; times coeff.
#include "layers/front/reduction.h"

#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {

ValueId TopKMean(const LayerBuilder& l, std::string_view field, ValueId x, int axis, int64_t k) {
  const GraphBuilder& b = l.b();
  const int64_t count = b.shape(x)[axis];
  l.Check(k >= 1 && k <= count, field,
          StrCat(field, " must be from 1 to the ", count, " elements that are reduced, found ", k));
  const ValueId mask = b.Add1("top_k_mask", {x}, {{"axis", int64_t{axis}}, {"k", k}});
  const std::string term = StrCat("select(x1,x0*", Number(1 / static_cast<double>(k)), ",0)");
  return b.Add1("reduce_sum", {x, mask}, {{"expr", term}, {"axes", Ints{axis}}});
}

namespace {

void Build(LayerBuilder& l) {
  const ReductionParameter& p = l.param().reduction_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "reduction_param.axis", p.axis(), x);
  const auto operation = p.operation();
  double coeff = Finite(l, "reduction_param.coeff", p.coeff());
  ValueId sum = kNoId;
  if (operation == ReductionParameter::TOPK) {
    const ValueId rows = l.b().Reshape(l.bottom(0), {x.Count(0, axis), x.Count(axis, x.rank())});
    sum = TopKMean(l, "reduction_param.k", rows, 1, p.k());
  } else {
    if (operation == ReductionParameter::MEAN) coeff /= static_cast<double>(x.Count(axis, x.rank()));
    const std::string term = operation == ReductionParameter::ASUM    ? "abs(x0)"
                             : operation == ReductionParameter::SUMSQ ? "x0*x0"
                                                                      : "x0";
    Ints axes;
    for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
    sum = l.b().Add1("reduce_sum", {l.bottom(0)}, {{"expr", term}, {"axes", axes}});
  }
  const ValueId y = l.b().Reshape(sum, Part(x, 0, axis));
  l.SetTop(0, coeff == 1 ? y : l.b().Pointwise(StrCat("x0*", Number(coeff)), {y}));
}

}  // namespace

LayerDef ReductionLayer() {
  return {.type = "Reduction",
          .doc =
              "SUM, ASUM (of absolute values), SUMSQ (of squares), MEAN or TOPK (the mean of the k largest) over axis "
              "and all later axes, times coeff. Where elements tie for TOPK the earlier is chosen.",
          .build = Build};
}

}  // namespace moka
