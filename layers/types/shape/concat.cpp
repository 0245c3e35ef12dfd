// The bottoms one after the other along an axis.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

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

}  // namespace

LayerDef ConcatLayer() {
  return {
      .type = "Concat",
      .doc = "The bottoms one after the other along concat_param.axis (default 1); their other dimensions are equal.",
      .max_bottoms = -1,
      .build = BuildConcat,
      .page = {
          .params = {"concat_param"},
          .formula =
              "y has the bottoms' shape but for axis (default 1, negative counts from the end), where it has the sum "
              "of theirs: the elements of bottom 0, then those of bottom 1, and so on. One bottom is the top itself."
              "\n\nper_fla_fuse (axis 1 of bottoms [N,C,H,W], whose C, H and W may differ): each bottom is read as "
              "[N,H,W,C] and flattened to `[N, H W C, 1, 1]` first.",
          .gradient = "Each bottom gets the part of dy that it made.",
          .source = "BVLC Caffe's concat_layer; concat_dim is the older name of axis, and giving both is refused. "
                    "per_fla_fuse is Intel's: its layer keeps the elements as they lie in memory, which is the order "
                    "[N,H,W,C] behind the int8 convolutions of the nets that it is for.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 5 dim: 4 dim: 4 } } }
layer {
  name: "concat"
  type: "Concat"
  bottom: "a"
  bottom: "b"
  top: "concat"
  concat_param { axis: 1 }
})"}};
}

}  // namespace moka
