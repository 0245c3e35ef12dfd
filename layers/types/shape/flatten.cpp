// Axes axis..end_axis become one.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildFlatten(LayerBuilder& l) {
  const FlattenParameter& p = l.param().flatten_param();
  const Shape x = l.shape(0);
  const int begin = AxisOf(l, "flatten_param.axis", p.axis(), x);
  const int end = AxisOf(l, "flatten_param.end_axis", p.end_axis(), x);
  l.Check(begin <= end, "flatten_param.end_axis",
          StrCat("flatten_param.end_axis ", p.end_axis(), " lies before axis ", p.axis(), " of ", x.ToString()));
  const Shape y = Joined(Joined(Part(x, 0, begin), {x.Count(begin, end + 1)}), Part(x, end + 1, x.rank()));
  l.SetTop(0, l.b().Reshape(l.bottom(0), y));
}

}  // namespace

LayerDef FlattenLayer() {
  return {
      .type = "Flatten",
      .doc =
          "Makes the axes from flatten_param.axis (default 1) to end_axis (default: the last) one; the elements stay "
          "as they are.",
      .build = BuildFlatten,
      .page = {
          .params = {"flatten_param"},
          .formula =
              "y has x's elements in their order; the axes from axis (default 1) to end_axis (default -1, the last; it "
              "is one of them) become one axis with their product as dimension. [N,C,H,W] becomes [N, C*H*W].",
          .gradient = "`dx` = dy in x's shape.",
          .source = "BVLC Caffe's flatten_layer.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "flat" type: "Flatten" bottom: "x" top: "flat" })"}};
}

}  // namespace moka
