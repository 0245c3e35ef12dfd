// The bottoms one after the other along an axis.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

// Intel's int8 nets of SSD: what a Permute to [N,H,W,C] and a Flatten of each bottom would give.
void BuildFlattened(LayerBuilder& l, int axis) {
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && axis == 1, "concat_param.per_fla_fuse",
          StrCat("per_fla_fuse is for axis 1 of bottoms [N,C,H,W], found axis ", axis, " of ", x.ToString()));
  std::vector<ValueId> parts;
  for (int i = 0; i < l.bottom_count(); ++i) {
    const Shape other = l.shape(i);
    l.Check(other.rank() == 4 && other[0] == x[0], StrCat("bottom[", i, "]"),
            StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(i), "\" ",
                   other.ToString(), " must be [N,C,H,W] of one N"));
    const ValueId moved = l.b().Add1("transpose", {l.bottom(i)}, {{"perm", Ints{0, 2, 3, 1}}});
    parts.push_back(l.b().Reshape(moved, {x[0], other.Count() / x[0], 1, 1}));
  }
  l.SetTop(0, parts.size() == 1 ? parts[0] : l.b().Add1("concat", parts, {{"axis", int64_t{1}}}));
}

void BuildConcat(LayerBuilder& l) {
  const ConcatParameter& p = l.param().concat_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l,
                          {"concat_param.axis", p.has_axis(), p.axis(), "concat_param.concat_dim", p.has_concat_dim(),
                           int64_t{p.concat_dim()}},
                          x);
  if (p.per_fla_fuse()) return BuildFlattened(l, axis);
  for (int i = 1; i < l.bottom_count(); ++i) {
    const Shape other = l.shape(i);
    l.Check(other.rank() == x.rank() && other.With(axis, x[axis]) == x, StrCat("bottom[", i, "]"),
            StrCat("bottoms \"", l.param().bottom(0), "\" ", x.ToString(), " and \"", l.param().bottom(i), "\" ",
                   other.ToString(), " must agree but for axis ", axis));
  }
  if (l.bottom_count() == 1) {
    l.SetTop(0, l.bottom(0));
  } else {
    l.SetTop(0, l.b().Add1("concat", l.bottoms(), {{"axis", int64_t{axis}}}));
  }
}

// The axis of shapes of this rank; outside of it where they have no such axis.
int ConcatAxis(const ConcatParameter& p, int rank) {
  return AxisFromFront(p.has_concat_dim() ? int64_t{p.concat_dim()} : p.axis(), rank);
}

// As the others but for the axis; numbers an item, which have no axis 1, are put side by side.
void NeedsOfConcat(const ShapeReader& reader) {
  const Shape* reference = reader.Reference();
  if (reference == nullptr) return;
  const int rank = reference->rank();
  const int axis = ConcatAxis(reader.layer().concat_param(), rank);
  for (int b = 0; b < reader.bottom_count(); ++b) {
    const Shape* shape = reader.bottom(b);
    if (rank == 1 && axis == 1 && shape != nullptr) {
      reader.Require(b, {(*shape)[0], 1});
    } else if (axis >= 0 && axis < rank && (shape == nullptr || shape->rank() < rank)) {
      reader.Require(b, *reference);
    } else if (axis >= 0 && axis < rank && shape->rank() == rank) {
      reader.Require(b, reference->With(axis, (*shape)[axis]));
    }
  }
}

BottomShapes BottomsOfConcat(const TopNeed& need) {
  const Shape& top = need.top;
  BottomShapes bottoms;
  const int axis = ConcatAxis(need.layer.concat_param(), top.rank());
  if (axis < 0 || axis >= top.rank()) return bottoms;
  for (size_t i = 0; i < need.known.size(); ++i) {
    const Shape* known = need.known[i];
    if (known == nullptr || known->rank() <= axis) continue;
    if (known->rank() != top.rank() && axis > 0) continue;  // items are items, whatever they consist of
    bottoms.push_back({.bottom = static_cast<int>(i), .shape = top.With(axis, (*known)[axis])});
  }
  return bottoms;
}

}  // namespace

LayerDef ConcatLayer() {
  return {.type = "Concat",
          .max_bottoms = -1,
          .build = BuildConcat,
          .traits = {.hands_on = true},
          .needs = NeedsOfConcat,
          .bottoms = BottomsOfConcat,
          .params = {"concat_param"}};
}

}  // namespace moka
