// The items whose selector (the last bottom) is not zero. Caffe's tops shrink to as many items; here they keep the
// batch's size, the items that are kept come first and the rest is zero.
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildFilter(LayerBuilder& l) {
  const int last = l.bottom_count() - 1;
  const Shape selector = l.shape(last);
  l.Check(
      selector.rank() >= 1 && selector.Count() == selector[0], StrCat("bottom[", last, "]"),
      StrCat("the selector \"", l.param().bottom(last), "\" must have one value an item, found ", selector.ToString()));
  l.Check(l.top_count() == last, "top",
          StrCat("Filter takes a top for each bottom but the selector, found ", l.bottom_count(), " bottoms and ",
                 l.top_count(), " tops"));
  const int64_t items = selector[0];
  const ValueId index = l.b().Add1("filter_index", {l.b().Reshape(l.bottom(last), {items})});
  for (int i = 0; i < last; ++i) {
    l.Check(l.shape(i).rank() >= 1 && l.shape(i)[0] == items, StrCat("bottom[", i, "]"),
            StrCat("bottom \"", l.param().bottom(i), "\" ", l.shape(i).ToString(), " must have the selector's ", items,
                   " items"));
    l.SetTop(i, l.b().Add1("reindex", {l.bottom(i), index}, {{"has_ignore", true}, {"ignore_label", int64_t{-1}}}));
  }
}

}  // namespace

LayerDef FilterLayer() {
  return {.type = "Filter", .min_bottoms = 2, .max_bottoms = -1, .max_tops = -1, .build = BuildFilter};
}

}  // namespace moka
