// y = exp(x) / sum of exp(x) along an axis, of what a mask leaves.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/ops/gradients.h"

namespace moka {
namespace {

// Bottom 1, after checking that it can be repeated to the bottom's shape.
ValueId SoftmaxMask(const LayerBuilder& l) {
  const Shape x = l.shape(0);
  const Shape mask = l.shape(1);
  bool fits = mask.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = mask[i] == x[i] || mask[i] == 1;
  l.Check(fits, "bottom[1]",
          StrCat("the mask ", mask.ToString(), " must have the axes of ", x.ToString(), ", each as large or 1"));
  return l.b().Add1("stop_gradient", {l.bottom(1)});
}

// The index along one of the last two axes, of size 1 along the others.
ValueId IndexAlong(const LayerBuilder& l, int axis) {
  Ints dims(static_cast<size_t>(l.shape(0).rank()), 1);
  dims[static_cast<size_t>(axis)] = l.shape(0)[axis];
  return l.b().Add1("positions", {}, {{"shape", dims}, {"axis", int64_t{axis}}});
}

void BuildSoftmax(LayerBuilder& l) {
  const SoftmaxParameter& p = l.param().softmax_param();
  const int axis = AxisOf(l, "softmax_param.axis", p.axis(), l.shape(0));
  const GraphBuilder& b = l.b();
  const int rank = l.shape(0).rank();
  l.Check(!p.causal() || (rank >= 2 && axis == rank - 1), "softmax_param.causal",
          StrCat("causal is along the last axis, one row for each index of the one before; axis is ", axis, " of ",
                 l.shape(0).ToString()));
  std::vector<ValueId> masks;
  Term hidden = 0;
  if (l.bottom_count() == 2) {
    masks.push_back(SoftmaxMask(l));
    hidden = Term::Of(masks[0]) == 0;
  }
  if (p.causal()) {
    const ValueId column = IndexAlong(l, rank - 1);
    const ValueId row = IndexAlong(l, rank - 2);
    const Term later = Term::Of(column) > Term::Of(row);
    hidden = masks.empty() ? later : Max(hidden, later);
    masks.insert(masks.end(), {column, row});
  }
  const auto shown = [&](ValueId value, double instead) {
    std::vector<ValueId> inputs{value};
    inputs.insert(inputs.end(), masks.begin(), masks.end());
    return b.Pointwise(Select(hidden, instead, Term::Of(value)), inputs);
  };
  // Near the lowest number of float16 (-65504); its exponential beside a score of usual size is 0.
  const ValueId x = masks.empty() ? l.bottom(0) : shown(l.bottom(0), -60000);
  const ValueId y = b.Add1("softmax", {x}, {{"axis", int64_t{axis}}});
  l.SetTop(0, masks.empty() ? y : shown(y, 0));
}

}  // namespace

LayerDef SoftmaxLayer() {
  return {.type = "Softmax",
          .max_bottoms = 2,
          .build = BuildSoftmax,
          .traits = {.top_shape = TopShape::kAxes, .drawn_as = DrawnAs::kScores, .reads_scores = true},
          .params = {"softmax_param"}};
}

}  // namespace moka
