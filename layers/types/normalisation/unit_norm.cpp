// Each item of a batch over its norm: what face and vehicle nets compare their features by. Two forks' layers, which
// differ in what keeps the divisor from being 0.
#include "layers/types/normalisation/unit_norm.h"

#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

constexpr double kRamEps = 1e-10;

void CheckBatch(const LayerBuilder& l) {
  l.Check(l.shape(0).rank() >= 1, "bottom[0]", "the bottom needs a batch axis");
}

void BuildNormalizationL2(LayerBuilder& l) {
  CheckBatch(l);
  l.SetTop(0, UnitItems(l, l.bottom(0), kRamEps, 0));
}

void BuildL2Norm(LayerBuilder& l) {
  CheckBatch(l);
  const double eps = Finite(l, "l2norm_param.eps", l.param().l2norm_param().eps());
  l.Check(eps >= 0, "l2norm_param.eps", StrCat("l2norm_param.eps must not be negative, found ", eps));
  l.SetTop(0, UnitItems(l, l.bottom(0), 0, eps));
}

}  // namespace

ValueId UnitItems(const LayerBuilder& l, ValueId x, double inside, double outside) {
  const Shape shape = l.b().shape(x);
  Ints axes = AllAxes(shape.rank());
  axes.erase(axes.begin());
  const std::string square = "x0*x0";
  const ValueId sum =
      axes.empty() ? l.b().Pointwise(square, {x}) : l.b().Add1("reduce_sum", {x}, {{"expr", square}, {"axes", axes}});
  const std::string under = inside == 0 ? "x1" : StrCat("(x1+", Number(inside), ")");
  const std::string norm =
      outside == 0 ? StrCat("sqrt(", under, ")") : StrCat("(sqrt(", under, ")+", Number(outside), ")");
  return l.b().Pointwise(StrCat("select(gt(", under, ",0),x0/", norm, ",0)"), {x, sum});
}

LayerDef L2NormLayer() {
  return {
      .type = "L2Norm",
      .doc =
          "Each item of the batch over its norm plus l2norm_param.eps (default 1e-8): all elements of an item are one "
          "vector. The top has the bottom's shape.",
      .build = BuildL2Norm,
      .page = {
          .params = {"l2norm_param"},
          .formula = "`y_n = x_n / (|x_n| + eps)`, the norm over all elements of item n; 0 where x_n is 0. eps is 1e-8 "
                     "unless given.",
          .gradient = "`dx_n = dy_n / r - x_n (x_n . dy_n) / (r^2 |x_n|)` with `r = |x_n| + eps`; 0 where x_n is 0.",
          .source = "The l2norm_layer of caffe_video_face, and the layer of that name of ARL's Caffe (Shao et al., "
                    "arXiv 1808.03457), which adds 1e-9 and has no field. Both have r^3 in the gradient's second term.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "unit" type: "L2Norm" bottom: "x" top: "unit" l2norm_param { eps: 1e-6 } })"}};
}

LayerDef NormalizationL2Layer() {
  return {.type = "NormalizationL2",
          .doc = "Each item of the batch over its norm: all elements of an item are one vector. No fields.",
          .build = BuildNormalizationL2,
          .page = {.params = {},
                   .formula = "`y_n = x_n / sqrt(|x_n|^2 + 1e-10)`, the norm over all elements of item n.",
                   .gradient = "`dx_n = dy_n / r - x_n (x_n . dy_n) / r^3` with `r = sqrt(|x_n|^2 + 1e-10)`.",
                   .source = "normalization_l2_layer of RAM's Caffe (Liu et al., \"RAM: a region-aware deep model for "
                             "vehicle re-identification\", arXiv 1806.09283), whose gradient leaves the 1e-10 out.",
                   .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "unit" type: "NormalizationL2" bottom: "x" top: "unit" })"}};
}

}  // namespace moka
