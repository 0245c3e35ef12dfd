// The bottoms one after the other along an axis.
#include "core/text.h"
#include "layers/front/fields.h"
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const ConcatParameter& p = l.param().concat_param();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l,
                          {"concat_param.axis", p.has_axis(), p.axis(), "concat_param.concat_dim", p.has_concat_dim(),
                           int64_t{p.concat_dim()}},
                          x);
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
      .build = Build,
      .page = {
          .params = {"concat_param"},
          .formula =
              "y has the bottoms' shape but for axis (default 1, negative counts from the end), where it has the sum "
              "of theirs: the elements of bottom 0, then those of bottom 1, and so on. One bottom is the top itself.",
          .gradient = "Each bottom gets the part of dy that it made.",
          .source = "BVLC Caffe's concat_layer; concat_dim is the older name of axis, and giving both is refused.",
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
