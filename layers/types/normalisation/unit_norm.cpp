// Each item of a batch over its norm: what face and vehicle nets compare their features by. Two forks' layers, which
// differ in what keeps the divisor from being 0.
#include "layers/types/normalisation/unit_norm.h"

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

constexpr double kRamEps = 1e-10;

void CheckBatch(const LayerBuilder& l) {
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottom needs a batch axis");
}

void BuildNormalizationL2(LayerBuilder& l) {
  CheckBatch(l);
  l.SetTop(0, UnitItems(l, l.bottom(0), kRamEps, 0));
}

void BuildL2Norm(LayerBuilder& l) {
  CheckBatch(l);
  const double eps = Finite(l, "l2norm_param.eps", l.param().l2norm_param().eps());
  l.Check(eps >= 0, "l2norm_param.eps", StrCat("l2norm_param.eps must not be negative, found ", eps));
  l.SetTop(0, UnitItems(l, l.bottom(0), 0, eps));
}

}  // namespace

ValueId UnitItems(const LayerBuilder& l, ValueId x, double inside, double outside) {
  const Shape shape = l.b().shape(x);
  Ints axes = AllAxes(shape.rank());
  axes.erase(axes.begin());
  const Term element = Term::Of(x);
  const ValueId sum = axes.empty() ? Computed(l.b(), Square(element)) : Summed(l.b(), Square(element), axes);
  const Term square = inside == 0 ? Term::Of(sum) : Term::Of(sum) + Decimal(inside);
  const Term norm = outside == 0 ? Sqrt(square) : Sqrt(square) + Decimal(outside);
  return Computed(l.b(), Select(square > 0, element / norm, 0), {x});
}

LayerDef L2NormLayer() {
  return {.type = "L2Norm",
          .build = BuildL2Norm,
          .traits = {.top_shape = TopShape::kOfBottoms},
          .params = {"l2norm_param"}};
}

LayerDef NormalizationL2Layer() { return {.type = "NormalizationL2", .build = BuildNormalizationL2}; }

}  // namespace moka
