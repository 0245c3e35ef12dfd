// AssistedExcitation: early in training a map is raised where the objects are.
#include "core/text.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildAssistedExcitation(LayerBuilder& l) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x.Count() > 0, "bottom[0]", StrCat("the bottom must be [N,C,H,W], found ", x.ToString()));
  const Shape label = l.shape(1);
  l.Check(label.Count() > 0 && label.Count() % (x[0] * 5) == 0, "bottom[1]",
          StrCat("labels must be lists of 5 numbers for each of the ", x[0], " images, found ", label.ToString()));
  const Shape map{x[0], x[2], x[3]};
  l.Check(l.shape(2).Count() == map.Count(), "bottom[2]",
          StrCat("bottom \"", l.param().bottom(2), "\" must be ", map.ToString(), ", the mean of the channels, found ",
                 l.shape(2).ToString()));
  const int64_t max_iter = l.param().assisted_excitation_param().max_iter();
  l.Check(max_iter >= 0, "assisted_excitation_param.max_iter",
          StrCat("max_iter must not be negative, found ", max_iter));
  if (l.phase() == TEST) {
    l.SetTop(0, l.bottom(0));
    return;
  }
  const ValueId runs = l.AddKept("runs", {});
  l.AssignKept(runs, b.Pointwise("x0+1", {runs}));
  const ValueId more =
      b.Add1("box_excitation", {b.Reshape(Constant(l, l.bottom(2)), map), Constant(l, l.bottom(1)), Constant(l, runs)},
             {{"max_iter", max_iter}});
  const ValueId everywhere =
      b.Add1("expand", {b.Reshape(more, {x[0], 1, x[2], x[3]})}, {{"shape", Ints{x[0], x[1], x[2], x[3]}}});
  l.SetTop(0, b.Pointwise("x0+x1", {l.bottom(0), everywhere}));
}

}  // namespace

LayerDef AssistedExcitationLayer() {
  return {.type = "AssistedExcitation",
          .min_bottoms = 3,
          .max_bottoms = 3,
          .build = BuildAssistedExcitation,
          .params = {"assisted_excitation_param"}};
}

}  // namespace moka
