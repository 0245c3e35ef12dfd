// sum |a - b| / N, N the batch (NVIDIA's layer).
#include "core/text.h"
#include "layers/front/loss/layers.h"
#include "layers/front/loss/own_gradient.h"

namespace moka {
namespace {

// FlowNet's layer of the same name has options that make it another loss.
void CheckFields(const LayerBuilder& l) {
  const L1LossParameter& p = l.param().l1_loss_param();
  const auto refuse = [&](bool is_set, const std::string& field) {
    l.Check(!is_set, "l1_loss_param." + field,
            StrCat("l1_loss_param.", field, " belongs to FlowNet's L1Loss; Moka has NVIDIA's, which has no options"));
  };
  refuse(p.has_l2_per_location(), "l2_per_location");
  refuse(p.has_l2_prescale_by_channels(), "l2_prescale_by_channels");
  refuse(p.has_normalize_by_num_entries(), "normalize_by_num_entries");
  refuse(p.has_epsilon(), "epsilon");
  refuse(p.has_plateau(), "plateau");
}

void Build(LayerBuilder& l) {
  CheckFields(l);
  const ValueId b = Like0(l, 1);
  l.SetTop(0, l.b().Pointwise(StrCat("x0/", l.shape(0)[0]), {SumOf(l, "abs(x0-x1)", {l.bottom(0), b})}));
  l.SetLoss(0, 1);
}

}  // namespace

LayerDef L1LossLayer() {
  return {.type = "L1Loss",
          .doc = "The sum of absolute differences of the bottoms divided by the batch; both get a gradient.",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .auto_tops = true,
          .build = Build};
}

}  // namespace moka
