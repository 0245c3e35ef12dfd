// y = min(max(x, min), max); the gradient passes where min <= x <= max.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

void BuildClip(LayerBuilder& l) {
  l.Check(l.param().has_clip_param(), {}, "clip_param { min: ... max: ... } must be given");
  const double low = Finite(l, "clip_param.min", l.param().clip_param().min());
  const double high = Finite(l, "clip_param.max", l.param().clip_param().max());
  l.Check(low <= high, "clip_param.min", StrCat("clip_param.min ", low, " is above max ", high));
  const std::string text = StrCat("select(lt(x0,", Number(low), "),", Number(low), ",select(gt(x0,", Number(high), "),",
                                  Number(high), ",x0))");
  l.SetTop(0, l.b().Pointwise(text, {l.bottom(0)}));
}

}  // namespace

LayerDef ClipLayer() {
  return {.type = "Clip",
          .doc = "Each element bounded to clip_param's [min, max]; the top has the bottom's shape.",
          .build = BuildClip,
          .page = {.params = {"clip_param"},
                   .formula = "`y = min(max(x, min), max)`, element by element; y has x's shape. min and max must be "
                              "given, min not above max.",
                   .gradient = "`dx = dy` where `min <= x <= max`, else 0.",
                   .source = "BVLC Caffe's clip_layer.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "clip" type: "Clip" bottom: "x" top: "clip" clip_param { min: 0.2 max: 0.7 } })"}};
}

}  // namespace moka
