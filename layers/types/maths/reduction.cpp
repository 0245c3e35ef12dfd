// Sums over the last axes: of x, |x|, x^2 or the k largest, or their mean; times coeff.
#include "layers/types/maths/reduction.h"

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {

ValueId TopKMean(const LayerBuilder& l, std::string_view field, ValueId x, int axis, int64_t k) {
  const GraphBuilder& b = l.b();
  const int64_t count = b.shape(x)[axis];
  l.Check(k >= 1 && k <= count, field,
          StrCat(field, " must be from 1 to the ", count, " elements that are reduced, found ", k));
  const ValueId mask = b.Add1("top_k_mask", {x}, {{"axis", int64_t{axis}}, {"k", k}});
  const Term share = Term::Of(x) * Decimal(1 / static_cast<double>(k));
  return Summed(b, Select(Term::Of(mask), share, 0), {axis}, {x});
}

namespace {

void BuildReduction(LayerBuilder& l) {
  const ReductionParameter& p = l.param().reduction_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, "reduction_param.axis", p.axis(), x);
  const auto operation = p.operation();
  double coeff = Finite(l, "reduction_param.coeff", p.coeff());
  const bool sums_all = axis == 0 && l.ranks() > 1 && operation != ReductionParameter::MEAN;
  const bool is_whole = sums_all && l.IsBatch(l.bottom(0));
  if (sums_all && !is_whole && l.ReadsData(l.bottom(0))) {
    l.NoteUnequal("sums rows that are no samples of the batch, of which each rank has its own part");
  }
  if (is_whole && operation == ReductionParameter::TOPK) {
    l.NoteUnequal("takes the largest of a batch, which is a part of it on each rank");
  } else if (is_whole) {
    coeff *= static_cast<double>(l.ranks());  // the mean over ranks is the sum over the whole batch
  }
  ValueId sum = kNoId;
  if (operation == ReductionParameter::TOPK) {
    const ValueId rows = l.b().Reshape(l.bottom(0), {x.Count(0, axis), x.Count(axis, x.rank())});
    sum = TopKMean(l, "reduction_param.k", rows, 1, p.k());
  } else {
    if (operation == ReductionParameter::MEAN) coeff /= static_cast<double>(x.Count(axis, x.rank()));
    const Term each = l.Bottom(0);
    const Term term = operation == ReductionParameter::ASUM    ? Abs(each)
                      : operation == ReductionParameter::SUMSQ ? Square(each)
                                                               : each;
    Ints axes;
    for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
    sum = Summed(l.b(), term, axes);
  }
  const ValueId y = l.b().Reshape(sum, Part(x, 0, axis));
  l.SetTop(0, coeff == 1 ? y : Computed(l.b(), Term::Of(y) * Decimal(coeff)));
}

}  // namespace

LayerDef ReductionLayer() { return {.type = "Reduction", .build = BuildReduction, .params = {"reduction_param"}}; }

}  // namespace moka
