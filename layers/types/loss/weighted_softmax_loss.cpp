// SoftmaxWithLoss in which the items of one class count more (shicai's Weighted_Softmax_Loss).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
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
  const std::string is_it = StrCat("eq(floor(x1),", Number(p.pos_cid()), ")");
  const ValueId sum =
      SumOf(l, StrCat("select(", is_it, ",", Number(factor), "*x0,x0)"), {y[0], Constant(l, l.bottom(1))});
  const Shape x = l.shape(0);
  const int64_t outer = x.Count(0, axis);
  const LossCounts counts{.batch = outer,
                          .positions = (Size(outer) * x.Count(axis + 1, x.rank())).value(),
                          .valid = loss.has_ignore_label() ? b.SumAll(y[1]) : kNoId};
  l.SetTop(0, Normalized(l, sum, counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, y[2]);
}

}  // namespace

LayerDef WeightedSoftmaxWithLossLayer() {
  return {
      .type = "WeightedSoftmaxWithLoss",
      .doc =
          "SoftmaxWithLoss whose losses at labels of class softmax_param.pos_cid (default 1) are multiplied by "
          "pos_mult "
          "(default 1); the divisor counts labels, not weights. loss_param as in SoftmaxWithLoss: ignore_label, "
          "normalization or normalize. An optional second top holds the probabilities.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .max_tops = 2,
      .auto_tops = true,
      .build = BuildWeightedSoftmaxLoss,
      .page = {.params = {"softmax_param", "loss_param"},
               .formula =
                   "`y = (1/Z) * sum w e`, `e = -log max(p_l, FLT_MIN)` with p the softmax of x along `axis` (default "
                   "1) and l the label, w is pos_mult where l is pos_cid and 1 elsewhere; ignored labels add 0. Z is "
                   "the number of labels that count (VALID, the default, or `normalize: true`), or the product of the "
                   "axes before `axis` (BATCH_SIZE, `normalize: false`), FULL all, NONE 1. Top 1 is p.",
               .gradient = "`dx = (loss_weight / Z) * w * (p - t)`, t one-hot; 0 at ignored labels. Labels get none.",
               .source =
                   "shicai's Weighted_Softmax_Loss for Caffe, whose gradient is that formula only for one position an "
                   "item: in maps it multiplies values of other positions by w as well.",
               .example = R"(layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 5 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 4 } } }
layer {
  name: "loss"
  type: "WeightedSoftmaxWithLoss"
  bottom: "x"
  bottom: "label"
  top: "loss"
  softmax_param { pos_cid: 0 pos_mult: 10 }
})"}};
}

}  // namespace moka
