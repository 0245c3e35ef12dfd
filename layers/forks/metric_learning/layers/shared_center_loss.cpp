// The center loss whose centres are directions, shared with the classifier's weights, times a trained radius gamma (Wen
// et al., IJCV 2019; ydwen/centerloss). The centres have no gradient here; the original scales the shared blob to unit
// rows in place, here it keeps its length. The radius moves by a rule of its own, whatever the loss's weight.
#include "core/text.h"
#include "layers/forks/metric_learning/layers/center_margin.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/normalisation/unit_norm.h"

namespace moka {
namespace {

constexpr const char* kSharedCenterPrefix = "shared_center_loss_param.";

// The gradient of the radii: with one for all, what brings it to the mean projection of the features that count; else
// of each class to the mean projection of its features.
OwnGradient OfRadius(const LayerBuilder& l, ValueId gamma, ValueId radius, ValueId projection, ValueId peers,
                     ValueId part) {
  const SharedCenterLossParameter& p = l.param().shared_center_loss_param();
  const std::string weight = Number(LossWeightOf(l));
  if (!p.gamma_shared()) return {radius, l.b().Pointwise(StrCat("(x0-x1)/x2/", weight), {radius, projection, peers})};
  const ValueId sum = SumOf(l, "x0*x1", {part, projection});
  const std::string eps = Number(Finite(l, std::string(kSharedCenterPrefix) + "eps", p.eps()));
  return {gamma, l.b().Pointwise(StrCat("(x0-x1/(x2+", eps, "))/", weight), {gamma, sum, SumOf(l, "x0", {part})})};
}

void BuildSharedCenterLoss(LayerBuilder& l) {
  const SharedCenterLossParameter& p = l.param().shared_center_loss_param();
  const std::string prefix = kSharedCenterPrefix;
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const int axis = AxisOf(l, prefix + "axis", p.axis(), x);
  const int64_t count = x.Count(0, axis);
  const int64_t length = x.Count(axis, x.rank());
  const int64_t classes = p.num_output();
  l.Check(classes >= 1, prefix + "num_output", "num_output, the number of classes, must be given and at least 1");
  const double margin = Finite(l, prefix + "margin", p.margin());
  const double eps = Finite(l, prefix + "eps", p.eps());
  l.Check(eps > 0, prefix + "eps", StrCat(prefix, "eps must be above 0, found ", eps));
  const bool is_cosine = p.type() == SharedCenterLossParameter::COSINE;
  l.Check(!is_cosine || (margin > -1 && margin < 1), prefix + "margin",
          StrCat("with type COSINE the margin must be above -1 and below 1, found ", margin));
  l.Check(l.shape(1).Count() == count, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must have ", count, " labels, found ", l.shape(1).ToString()));
  const ValueId centers =
      l.AddBlob(0, {classes, length}, p.center_filler(), ParameterRole::kWeight, prefix + "center_filler");
  const ValueId gamma = l.AddBlob(1, {classes}, p.gamma_filler(), ParameterRole::kWeight, prefix + "gamma_filler");
  const ValueId rows = b.Reshape(l.bottom(0), {count, length});
  const ValueId label = b.Reshape(Constant(l, l.bottom(1)), {count});
  // Of each item's class: the direction [M,D] and the radius [M,1].
  const ValueId direction = UnitItems(l, b.Add1("reindex", {Constant(l, centers), label}), 0, eps);
  const ValueId radius = b.Add1("reindex", {b.Reshape(gamma, {classes, 1}), label});
  const ValueId center = b.Pointwise("x0*x1", {direction, Constant(l, radius)});
  const ValueId part = DrawnPart(l, {rows, center}, is_cosine, margin, 0);
  const ValueId difference = b.Pointwise("(x0-x1)*x2", {Constant(l, rows), center, part});
  const ValueId projection =
      b.Add1("reduce_sum", {Constant(l, rows), direction}, {{"expr", std::string("x0*x1")}, {"axes", Ints{1}}});
  const ValueId dx = b.Pointwise(StrCat("x0/", count), {difference});
  const ValueId sum = SumOf(l, "x0*x0", {difference});
  const ValueId loss = b.Pointwise(StrCat("x0/", (Size(2) * count).value()), {sum});
  l.SetTop(
      0, WithGradients(l, loss, {{rows, dx}, OfRadius(l, gamma, radius, projection, PeersOf(l, label, count), part)}));
  l.NoteUnequal("moves its centres by the number of a class's items in a batch, which is a part of it on each rank");
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, SumOf(l, "x0", {part}));
}

}  // namespace

LayerDef SharedCenterLossLayer() {
  return {
      .type = "SharedCenterLoss",
      .doc =
          "CenterLoss with centres gamma_j u_j: u_j the direction of row j of blob 0 [num_output, D], which is meant "
          "to "
          "be shared with the classifier's weights and has no gradient here, gamma (blob 1, [num_output]) a trained "
          "radius. Features within margin of their centre cost nothing: a distance (type L2) or a cosine (COSINE). An "
          "optional second top is the sum of the parts of the way that features are drawn.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildSharedCenterLoss,
      .page = {
          .params = {"shared_center_loss_param"},
          .formula =
              "`y = sum over items i of p_i^2 |d_i|^2 / (2 M)`, a scalar, `d_i = x_i - gamma[k] u[k]` with k the "
              "label, "
              "`u[k] = c[k] / (|c[k]| + eps)`, c blob 0. x's axes from axis (default 1) on are one vector of D "
              "elements, M is the product of those before. Type L2: `p = max(0, (|d| - margin) / |d|)`. COSINE: p is "
              "the step for which x - p d and the centre make an angle of cosine margin, 0 where it already is at "
              "least that. Top 1 is the sum of p_i. The loss weight is 1 unless given.",
          .gradient =
              "`dx_i = dy p_i d_i / M`. Whatever the loss weight w: `dgamma[k] = dy / w * sum of (gamma[k] - x_i "
              ". u[k]) / n_k` over the n_k items of class k; with gamma_shared `dgamma[k] = dy / w * (gamma[k] - "
              "(sum of p_i x_i . u) / (sum of p_i + eps))` for every class. Centres and labels get none.",
          .source = "A comprehensive study on center loss for deep face recognition (Wen, Zhang, Li, Qiao, IJCV 2019); "
                    "ydwen/centerloss, shared_center_loss_layer, which scales the shared blob to unit rows in place; "
                    "here it keeps its length.",
          .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "SharedCenterLoss"
  bottom: "x"
  bottom: "label"
  top: "loss"
  top: "drawn"
  loss_weight: 0.01
  loss_weight: 0
  shared_center_loss_param {
    num_output: 5 gamma_shared: true
    center_filler { type: "xavier" } gamma_filler { type: "constant" value: 1 }
  }
})"}};
}

}  // namespace moka
