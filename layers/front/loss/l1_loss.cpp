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
  return {
      .type = "L1Loss",
      .doc =
          "The sum of absolute differences of the two bottoms divided by the batch, a scalar; the bottoms have one "
          "batch and one count, and both get a gradient. It has no fields.",
      .min_bottoms = 2,
      .max_bottoms = 2,
      .auto_tops = true,
      .build = Build,
      .page = {
          .params = {"l1_loss_param"},
          .formula =
              "`y = sum of |a - b| / N`, a scalar; N is a's first dimension. a and b have one first dimension and one "
              "number of elements. Its loss weight is 1 unless given. The fields of l1_loss_param must not be given.",
          .gradient = "`da = dy * sign(a - b) / N`, 0 where they are equal; `db = -da`: both bottoms get one.",
          .source =
              "NVIDIA's Caffe, l1_loss_layer. FlowNet's layer of this name is another loss: its fields are refused.",
          .example = R"(layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer {
  name: "loss"
  type: "L1Loss"
  bottom: "a"
  bottom: "b"
  top: "loss"
})"}};
}

}  // namespace moka
