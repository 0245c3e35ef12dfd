// The indices (and values) of the top_k largest elements of a sample or along an axis.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const ArgMaxParameter& p = l.param().argmax_param();
  const Shape& x = l.shape(0);
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
  return {.type = "ArgMax",
          .doc =
              "The indices of the top_k largest elements: [N,1,top_k,1..] over all but the batch, or along axis; "
              "out_max_val adds the values ([N,2,top_k]) or, with an axis, gives them instead. No gradient.",
          .build = Build};
}

}  // namespace moka
