// BorderWeight: U-Net's weight of each pixel in the loss, for SoftmaxWithLoss's third bottom. Made of the labels in
// each step, it follows whatever the data layer did to them.
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

void BuildBorderWeight(LayerBuilder& l) {
  const BorderWeightParameter& p = l.param().border_weight_param();
  const Shape x = l.shape(0);
  l.Check(x.rank() == 4 && x[1] == 1, "bottom[0]", StrCat("the labels must be [N,1,H,W], found ", x.ToString()));
  Doubles weights;
  for (int c = 0; c < p.class_weight_size(); ++c) {
    const std::string field = StrCat("border_weight_param.class_weight[", c, "]");
    weights.push_back(Finite(l, field, p.class_weight(c)));
    l.Check(weights.back() >= 0, field, StrCat(field, " must not be negative, found ", weights.back()));
  }
  const double w0 = Finite(l, "border_weight_param.w0", p.w0());
  l.Check(w0 >= 0, "border_weight_param.w0", StrCat("border_weight_param.w0 must not be negative, found ", w0));
  const double sigma = Finite(l, "border_weight_param.sigma", p.sigma());
  l.Check(sigma > 0 && sigma <= 64, "border_weight_param.sigma",
          StrCat("border_weight_param.sigma must be above 0 and at most 64, found ", sigma));
  l.SetTop(0, l.b().Add1("border_weight", {Constant(l, l.bottom(0))},
                         {{"class_weight", weights},
                          {"w0", w0},
                          {"sigma", sigma},
                          {"object_label", int64_t{p.object_label()}},
                          {"ignore_label", int64_t{p.ignore_label()}}}));
}

}  // namespace

LayerDef BorderWeightLayer() {
  return {.type = "BorderWeight", .build = BuildBorderWeight, .params = {"border_weight_param"}};
}

}  // namespace moka
