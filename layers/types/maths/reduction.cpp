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
  const std::string term = StrCat("select(x1,x0*", Number(1 / static_cast<double>(k)), ",0)");
  return b.Add1("reduce_sum", {x, mask}, {{"expr", term}, {"axes", Ints{axis}}});
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
  return {
      .type = "Reduction",
      .doc =
          "SUM, ASUM (of absolute values), SUMSQ (of squares), MEAN or TOPK (the mean of the k largest) over axis "
          "and all later axes, times coeff. Where elements tie for TOPK the earlier is chosen.",
      .build = BuildReduction,
      .page = {
          .params = {"reduction_param"},
          .formula = "The bottom's shape before `axis` (default 0; negative counts from the end) is the top's; a "
                     "scalar for axis 0. Over the m elements of axis and all later axes: SUM `coeff * sum(x)`, ASUM "
                     "`coeff * sum(|x|)`, SUMSQ `coeff * sum(x^2)`, MEAN `coeff * sum(x) / m`, TOPK `coeff * (sum of "
                     "the k largest) / k`. Of equal elements TOPK chooses the earlier.",
          .gradient = "x: SUM `coeff dy`, ASUM `coeff sign(x) dy` (0 at 0), SUMSQ `2 coeff x dy`, MEAN `coeff dy / m`, "
                      "TOPK `coeff dy / k` for the chosen elements and 0 for the others.",
          .source = "BVLC Caffe's reduction_layer; TOPK is that of the Caffe of temporal segment networks (Wang et "
                    "al., arXiv 1608.00859).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer {
  name: "reduced"
  type: "Reduction"
  bottom: "x"
  top: "reduced"
  reduction_param { operation: MEAN axis: 2 coeff: 0.5 }
})"}};
}

}  // namespace moka
