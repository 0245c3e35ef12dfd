// The indices (and values) of the top_k largest elements of a sample or along an axis.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildArgMax(LayerBuilder& l) {
  const ArgMaxParameter& p = l.param().argmax_param();
  const Shape x = l.shape(0);
  const int axis = p.has_axis() ? AxisOf(l, "argmax_param.axis", p.axis(), x) : 1;
  const int64_t count = p.has_axis() ? x[axis] : x.Count(1, x.rank());
  l.Check(p.top_k() >= 1 && p.top_k() <= count, "argmax_param.top_k",
          StrCat("argmax_param.top_k must be from 1 to the ", count, " elements compared, found ", p.top_k()));
  l.SetTop(0, l.b().Add1("argmax", {l.bottom(0)},
                         {{"top_k", int64_t{p.top_k()}},
                          {"out_max_val", p.out_max_val()},
                          {"axis", int64_t{axis}},
                          {"has_axis", p.has_axis()}}));
}

}  // namespace

LayerDef ArgMaxLayer() {
  return {
      .type = "ArgMax",
      .doc =
          "The indices of the top_k largest elements: [N,1,top_k,1..] over all but the batch, or along axis; "
          "out_max_val adds the values ([N,2,top_k]) or, with an axis, gives them instead.",
      .build = BuildArgMax,
      .page = {
          .params = {"argmax_param"},
          .formula =
              "Without axis the elements of each item are one list, in memory order. y is [N,1,top_k] (as many axes as "
              "x, at least 3, the later ones 1) and holds their indices; with out_max_val it is [N,2,top_k]: "
              "`y[n,0,j]` the indices, `y[n,1,j]` the values.\n\nWith axis y is x's shape with top_k at axis, and "
              "holds indices along it, or with out_max_val the values in place of them.\n\nThe largest comes first; of "
              "equal elements the one with the larger index comes first. Indices are floats.",
          .gradient = "None: the bottom gets none.",
          .source = "BVLC Caffe's argmax_layer.",
          .example = R"(layer { name: "score" type: "Input" top: "score" input_param { shape { dim: 2 dim: 5 } } }
layer {
  name: "best"
  type: "ArgMax"
  bottom: "score"
  top: "best"
  argmax_param { top_k: 2 axis: 1 }
})"}};
}

}  // namespace moka
