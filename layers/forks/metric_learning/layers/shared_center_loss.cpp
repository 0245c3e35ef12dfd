// The centre loss whose centres are directions, shared with the classifier's weights, times a trained radius gamma (Wen
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
  const Term weight = Decimal(LossWeightOf(l));
  if (!p.gamma_shared()) {
    return {radius, Computed(l.b(), (Term::Of(radius) - Term::Of(projection)) / Term::Of(peers) / weight)};
  }
  const ValueId sum = SumOf(l, "x0*x1", {part, projection});
  const Term eps = Decimal(Finite(l, std::string(kSharedCenterPrefix) + "eps", p.eps()));
  const Term mean = Term::Of(sum) / (Term::Of(SumOf(l, "x0", {part})) + eps);
  return {gamma, Computed(l.b(), (Term::Of(gamma) - mean) / weight)};
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
  // The direction [M,D] and the radius [M,1] of each item's class.
  const ValueId direction = UnitItems(l, b.Add1("reindex", {Constant(l, centers), label}), 0, eps);
  const ValueId radius = b.Add1("reindex", {b.Reshape(gamma, {classes, 1}), label});
  const ValueId center = b.Pointwise("x0*x1", {direction, Constant(l, radius)});
  const ValueId part = DrawnPart(l, {rows, center}, is_cosine, margin, 0);
  const ValueId difference = b.Pointwise("(x0-x1)*x2", {Constant(l, rows), center, part});
  const ValueId projection =
      b.Add1("reduce_sum", {Constant(l, rows), direction}, {{"expr", std::string("x0*x1")}, {"axes", Ints{1}}});
  const ValueId dx = Computed(b, Term::Of(difference) / count);
  const ValueId sum = SumOf(l, "x0*x0", {difference});
  const ValueId loss = Computed(b, Term::Of(sum) / (Size(2) * count).value());
  l.SetTop(
      0, WithGradients(l, loss, {{rows, dx}, OfRadius(l, gamma, radius, projection, PeersOf(l, label, count), part)}));
  l.NoteUnequal("moves its centres by the number of a class's items in a batch, which is a part of it on each rank");
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, SumOf(l, "x0", {part}));
}

}  // namespace

LayerDef SharedCenterLossLayer() {
  return {.type = "SharedCenterLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildSharedCenterLoss,
          .traits = {.is_loss = true},
          .params = {"shared_center_loss_param"}};
}

}  // namespace moka
