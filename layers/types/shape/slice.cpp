// The bottom cut along an axis, at slice_point or into equal parts.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

Ints Sizes(const LayerBuilder& l, int axis) {
  const SliceParameter& p = l.param().slice_param();
  const int64_t length = l.shape(0)[axis];
  const int tops = l.top_count();
  if (p.slice_point_size() == 0) {
    l.Check(length % tops == 0, "top",
            StrCat("axis ", axis, " of the bottom ", l.shape(0).ToString(), " does not divide into ", tops,
                   " equal tops; give slice_point"));
    return Ints(static_cast<size_t>(tops), length / tops);
  }
  l.Check(p.slice_point_size() == tops - 1, "slice_param.slice_point",
          StrCat("slice_param.slice_point is given ", p.slice_point_size(), " times for ", tops,
                 " tops; give one less than tops"));
  Ints sizes;
  int64_t begin = 0;
  for (int i = 0; i < tops; ++i) {
    const int64_t end = i + 1 < tops ? int64_t{p.slice_point(i)} : length;
    l.Check(end > begin && end <= length, "slice_param.slice_point",
            StrCat("slice_param.slice_point must rise from 1 to below ", length, " (axis ", axis, " of ",
                   l.shape(0).ToString(), "): part ", i, " would run from ", begin, " to ", end));
    sizes.push_back(end - begin);
    begin = end;
  }
  return sizes;
}

void BuildSlice(LayerBuilder& l) {
  const SliceParameter& p = l.param().slice_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(
      l,
      {"slice_param.axis", p.has_axis(), p.axis(), "slice_param.slice_dim", p.has_slice_dim(), int64_t{p.slice_dim()}},
      x);
  const Ints sizes = Sizes(l, axis);
  if (sizes.size() == 1) {
    l.SetTop(0, l.bottom(0));
    return;
  }
  const std::vector<ValueId> parts = l.b().Add("slice", {l.bottom(0)}, {{"axis", int64_t{axis}}, {"sizes", sizes}});
  for (size_t i = 0; i < parts.size(); ++i) l.SetTop(static_cast<int>(i), parts[i]);
}

}  // namespace

LayerDef SliceLayer() {
  return {.type = "Slice",
          .max_tops = -1,
          .build = BuildSlice,
          .traits = {.hands_on = true, .cuts = true},
          .params = {"slice_param"}};
}

}  // namespace moka
