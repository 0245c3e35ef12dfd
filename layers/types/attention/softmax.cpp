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
  std::string hidden;
  if (l.bottom_count() == 2) {
    masks.push_back(SoftmaxMask(l));
    hidden = "eq(x1,0)";
  }
  if (p.causal()) {
    const size_t first = masks.size() + 1;
    const std::string later = StrCat("gt(x", first, ",x", first + 1, ")");
    masks.push_back(IndexAlong(l, rank - 1));
    masks.push_back(IndexAlong(l, rank - 2));
    hidden = hidden.empty() ? later : StrCat("max(", hidden, ",", later, ")");
  }
  const auto shown = [&](ValueId value, const char* instead) {
    std::vector<ValueId> inputs{value};
    inputs.insert(inputs.end(), masks.begin(), masks.end());
    return b.Pointwise(StrCat("select(", hidden, ",", instead, ",x0)"), inputs);
  };
  // The lowest number that a half-precision type has too; its exponential beside any other is 0.
  const ValueId x = masks.empty() ? l.bottom(0) : shown(l.bottom(0), "-60000");
  const ValueId y = b.Add1("softmax", {x}, {{"axis", int64_t{axis}}});
  l.SetTop(0, masks.empty() ? y : shown(y, "0"));
}

}  // namespace

LayerDef SoftmaxLayer() {
  return {
      .type = "Softmax",
      .doc =
          "exp(x) divided by its sum along softmax_param.axis (default 1); the top has the bottom's "
          "shape. Where a second bottom, the mask, is 0 the top is 0 and x counts for nothing; it has the bottom's "
          "axes, of size 1 where it is repeated. softmax_param.causal: row i of the last two axes sees the elements "
          "up to i.",
      .max_bottoms = 2,
      .build = BuildSoftmax,
      .page = {
          .params = {"softmax_param"},
          .formula =
              "`y_c = exp(x_c - m) / sum_k exp(x_k - m)` with `m = max_k x_k`, along `axis` (default 1, "
              "negative counts from the end); the top has the bottom's shape.\n\nWith a mask (the second bottom, "
              "each of whose axes is as large as x's or 1) the sum and m are over the elements where it is not "
              "0, and y is 0 elsewhere, everywhere in a line that is masked whole. `causal: true` (the axis is "
              "the last, x `[..,T,S]`) masks the elements s > t of row t too.",
          .gradient = "`dx_c = y_c * (dy_c - sum_k y_k dy_k)`, sums along the axis; none for the mask.",
          .source = "BVLC Caffe's softmax_layer; `engine` is read and ignored. The mask and causal are Moka's own, for "
                    "attention (Bahdanau et al., arXiv 1409.0473; Vaswani et al., arXiv 1706.03762).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 5 dim: 3 dim: 3 } } }
layer {
  name: "softmax"
  type: "Softmax"
  bottom: "x"
  top: "softmax"
  softmax_param { axis: 1 }
})"}};
}

}  // namespace moka
