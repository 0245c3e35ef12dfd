// -log softmax(x)[label] summed over the positions and normalised; probabilities are clipped at FLT_MIN, so one
// position adds at most 87.3365.
#include "layers/front/fields.h"
#include "layers/front/layers.h"
#include "layers/front/loss_normalizer.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) {
  const int axis = AxisOf(l, "softmax_param.axis", l.param().softmax_param().axis(), l.shape(0));
  CheckLabelCount(l, axis);
  const LossParameter& p = l.param().loss_param();
  const std::vector<ValueId> loss = l.b().Add(
      "softmax_loss", l.bottoms(),
      {{"axis", int64_t{axis}}, {"has_ignore", p.has_ignore_label()}, {"ignore_label", int64_t{p.ignore_label()}}});
  const Shape& x = l.shape(0);
  const int64_t outer = x.Count(0, axis);
  const LossCounts counts{.batch = outer,
                          .positions = (Size(outer) * x.Count(axis + 1, x.rank())).value(),
                          .valid = p.has_ignore_label() ? loss[1] : kNoId};
  l.SetTop(0, Normalized(l, loss[0], counts, LossParameter::VALID));
  l.SetLoss(0, 1);
  if (l.top_count() > 1) l.SetTop(1, loss[2]);
}

}  // namespace

LayerDef SoftmaxWithLossLayer() {
  return {.type = "SoftmaxWithLoss",
          .doc =
              "The mean of -log(softmax(x)[label]) along softmax_param.axis; loss_param has ignore_label and the "
              "normalization (default VALID). An optional second top holds the probabilities.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .max_tops = 2,
          .auto_tops = true,
          .build = Build};
}

}  // namespace moka
