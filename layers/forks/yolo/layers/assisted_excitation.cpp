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
  return {
      .type = "AssistedExcitation",
      .doc =
          "A map [N,C,H,W] raised where boxes of the label are, less and less as training goes on. Bottoms: the map, "
          "lists of boxes [N,..,5] (label, x, y, w, h; x 0 ends a list) and the map's mean over channels [N,H,W]. "
          "TEST: the map as it is.",
      .min_bottoms = 3,
      .max_bottoms = 3,
      .build = BuildAssistedExcitation,
      .page = {
          .params = {"assisted_excitation_param"},
          .formula =
              "TRAIN: `y[n,c,i,j] = x[n,c,i,j] + alpha * e[i,j] * mean[n,i,j]` for the first image (n = 0), and x "
              "for the others. e is 1 in cells from `floor((x - w/2) W)` to, not with, `floor((x + w/2) W + "
              "0.95)`, at least one, and rows likewise, of any box. `alpha = max(cos(pi/2 * t / (3/4 "
              "max_iter)), 0)`, t the runs so far; 1 with max_iter 0. `moka train` sets max_iter to the solver's "
              "where it is not given.",
          .gradient = "`dx = dy`. The other bottoms get none.",
          .source = "Derakhshani et al., \"Assisted Excitation of Activations\", 2019, arXiv 1906.05388; eric612's "
                    "MobileNet-YOLO, assisted_excitation_layer, where too only the first image of a batch is raised: "
                    "the others' boxes are marked where nothing reads them. In TEST its iteration is not set.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 dim: 1 dim: 3 dim: 5 } } }
layer { name: "mean" type: "Input" top: "mean" input_param { shape { dim: 2 dim: 4 dim: 4 } } }
layer {
  name: "excited"
  type: "AssistedExcitation"
  bottom: "x"
  bottom: "label"
  bottom: "mean"
  top: "excited"
  assisted_excitation_param { max_iter: 1000 }
})"}};
}

}  // namespace moka
