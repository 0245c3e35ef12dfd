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
                          {"has_axis", p.has_axis()},
                          {"first_of_equals", p.first_of_equals()}}));
}

}  // namespace

LayerDef ArgMaxLayer() {
  return {.type = "ArgMax",
          .build = BuildArgMax,
          .traits = {.reads_scores = true, .gives_indices = true},
          .params = {"argmax_param"}};
}

}  // namespace moka
