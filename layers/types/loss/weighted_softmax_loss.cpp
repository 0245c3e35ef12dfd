// SoftmaxWithLoss in which the items of one class count more (shicai's Weighted_Softmax_Loss).
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"
#include "layers/types/loss/padding.h"

namespace moka {
namespace {

void BuildWeightedSoftmaxLoss(LayerBuilder& l) {
  const SoftmaxParameter& p = l.param().softmax_param();
  const LossParameter& loss = l.param().loss_param();
  const GraphBuilder& b = l.b();
  const int axis = AxisOf(l, "softmax_param.axis", p.axis(), l.shape(0));
  CheckLabelCount(l, axis);
  const double factor = Finite(l, "softmax_param.pos_mult", p.pos_mult());
  Attributes attributes{{"axis", int64_t{axis}}, {"smoothing", 0.0}};
  SetIgnoredLabel(l, loss, attributes);
  const std::vector<ValueId> y = b.Add("softmax_losses", {l.bottom(0), l.bottom(1)}, attributes);
  const Term label = Term::Of(Constant(l, l.bottom(1)));
  const Term each = Term::Of(y[0]);
  const Term is_it = Floor(label) == p.pos_cid();
  const ValueId sum = SumOf(l, Select(is_it, Decimal(factor) * each, each), {y[0]});
  const Shape x = l.shape(0);
  const int64_t outer = x.Count(0, axis);
  const LossCounts counts{.batch = outer,
                          .positions = (Size(outer) * x.Count(axis + 1, x.rank())).value(),
                          .valid = loss.has_ignore_label() ? b.SumAll(y[1]) : kNoId};
  l.SetTop(0, Normalized(l, sum, counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, y[2]);
}

void NeedsOfWeightedSoftmaxLoss(const ShapeReader& reader) {
  NeedLabels(reader, reader.layer().softmax_param().axis(), Weighs::kPositions);
}

}  // namespace

LayerDef WeightedSoftmaxWithLossLayer() {
  return {.type = "WeightedSoftmaxWithLoss",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = BuildWeightedSoftmaxLoss,
          .traits = {.is_loss = true},
          .needs = NeedsOfWeightedSoftmaxLoss,
          .params = {"softmax_param", "loss_param"}};
}

}  // namespace moka
