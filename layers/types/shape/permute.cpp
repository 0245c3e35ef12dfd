// Axes in another order (SSD).
#include <algorithm>
#include <vector>

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"

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

void NeedsOfPermute(const ShapeReader& reader) {
  const DataTop* top = reader.has_failed() ? reader.Changeable(0) : nullptr;
  const int rank = reader.layer().permute_param().order_size();
  if (top == nullptr || top->shape.rank() >= rank) return;
  const Shape first = reader.needs().FirstOf(*top, {});
  if (first.rank() == rank) reader.needs().Change(reader.name(0), first);
}

// Axes that the order leaves out come last, as they stand.
BottomShapes BottomsOfPermute(const TopNeed& need) {
  const Shape& top = need.top;
  std::vector<int> order;
  for (const uint32_t axis : need.layer.permute_param().order()) {
    if (axis >= static_cast<uint32_t>(top.rank())) return {};
    order.push_back(static_cast<int>(axis));
  }
  for (int axis = 0; axis < top.rank(); ++axis) {
    if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
  }
  if (order.size() != static_cast<size_t>(top.rank())) return {};  // an axis twice
  Shape bottom = top;
  for (int i = 0; i < top.rank(); ++i) bottom = bottom.With(order[static_cast<size_t>(i)], top[i]);
  return FirstBottom(bottom);
}

}  // namespace

LayerDef PermuteLayer() {
  return {.type = "Permute",
          .build = BuildPermute,
          .traits = {.hands_on = true},
          .needs = NeedsOfPermute,
          .bottoms = BottomsOfPermute,
          .params = {"permute_param"}};
}

}  // namespace moka
