// Axes in another order (SSD).
#include <algorithm>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildPermute(LayerBuilder& l) {
  const auto& order = l.param().permute_param().order();
  const Shape x = l.shape(0);
  Ints perm;
  for (int i = 0; i < order.size(); ++i) {
    const int64_t axis = order.Get(i);
    l.Check(
        axis < x.rank(), StrCat("permute_param.order[", i, "]"),
        StrCat("permute_param.order names axis ", axis, " but the bottom ", x.ToString(), " has ", x.rank(), " axes"));
    l.Check(std::ranges::find(perm, axis) == perm.end(), StrCat("permute_param.order[", i, "]"),
            StrCat("permute_param.order names axis ", axis, " twice"));
    perm.push_back(axis);
  }
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (std::ranges::find(perm, axis) == perm.end()) perm.push_back(axis);
  }
  l.SetTop(0, std::ranges::is_sorted(perm) ? l.bottom(0) : l.b().Add1("transpose", {l.bottom(0)}, {{"perm", perm}}));
}

}  // namespace

LayerDef PermuteLayer() {
  return {
      .type = "Permute",
      .doc =
          "The bottom with its axes in the order of permute_param.order: axis i of the top is axis order[i] of the "
          "bottom; axes not named follow ascending.",
      .build = BuildPermute,
      .page = {
          .params = {"permute_param"},
          .formula = "`y[j_0, j_1, ..] = x[i_0, i_1, ..]` with `i_order[k] = j_k`: axis k of the top is axis "
                     "order[k] of the bottom. Axes that `order` does not name follow in ascending order; with no "
                     "order the top is the bottom.",
          .gradient = "`dx` is `dy` with the axes put back by the inverse permutation.",
          .source = "SSD's Caffe (Liu et al., arXiv 1512.02325).",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 8 dim: 3 dim: 5 } } }
layer {
  name: "nhwc"
  type: "Permute"
  bottom: "x"
  top: "nhwc"
  permute_param { order: 0 order: 2 order: 3 order: 1 }
})"}};
}

}  // namespace moka
