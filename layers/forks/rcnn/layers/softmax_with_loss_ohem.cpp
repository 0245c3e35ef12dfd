// SoftmaxWithLoss that also tells each position's loss, for online hard example mining (R-FCN).
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/types/loss/loss_normalizer.h"
#include "layers/types/loss/own_gradient.h"

namespace moka {
namespace {

// -log max(p[label], FLT_MIN) of each position, 0 where the label is ignored; the labels' shape.
ValueId EachLoss(const LayerBuilder& l, ValueId probability, int axis, const LossParameter& p) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(0);
  const ValueId mask = b.Add1("label_mask", {l.bottom(1)},
                              {{"shape", DimsOf(x)},
                               {"axis", int64_t{axis}},
                               {"has_ignore", p.has_ignore_label()},
                               {"ignore_label", int64_t{p.ignore_label()}}});
  const ValueId each =
      b.Add1("reduce_sum", {probability, mask},
             {{"expr", std::string("select(x1,-log(max(x0,1.17549435e-38)),0)")}, {"axes", Ints{axis}}});
  return Constant(l, b.Reshape(each, Shape(l.shape(1))));
}

void BuildSoftmaxWithLossOhem(LayerBuilder& l) {
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), l.shape(0));
  CheckLabelCount(l, axis);
  const LossParameter& p = l.param().loss_param();
  const std::vector<ValueId> loss = l.b().Add(
      "softmax_loss", l.bottoms(),
      {{"axis", int64_t{axis}}, {"has_ignore", p.has_ignore_label()}, {"ignore_label", int64_t{p.ignore_label()}}});
  const Shape x = l.shape(0);
  const int64_t outer = x.Count(0, axis);
  const LossCounts counts{.batch = outer,
                          .positions = (Size(outer) * x.Count(axis + 1, x.rank())).value(),
                          .valid = p.has_ignore_label() ? loss[1] : kNoId};
  l.SetTop(0, Normalized(l, loss[0], counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, loss[2]);
  if (l.top_count() > 2) l.SetTop(2, EachLoss(l, loss[2], axis, p));
}

}  // namespace

LayerDef SoftmaxWithLossOhemLayer() {
  return {.type = "SoftmaxWithLossOHEM",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 3,
          .auto_tops = true,
          .build = BuildSoftmaxWithLossOhem,
          .traits = {.is_loss = true},
          .params = {"softmax_param", "loss_param"}};
}

}  // namespace moka
