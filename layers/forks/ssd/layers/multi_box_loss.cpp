// MultiBoxLoss (Liu et al., "SSD", 2016; first and second stage of RefineDet): matching and mining choose the targets
// (op multibox_match), the losses are sums over what they chose, both divided by the number of matches:
//   (loc_weight * sum smooth_l1(weight * (loc - code)) + sum -log softmax(conf)[class]) / max(matches, 1).
// An image without ground truth adds nothing when negatives are mined, as in Caffe. Logistic targets without mining are
// each image's own 0 and 1; Caffe shifts those of later images and starts from the background's number.
#include "layers/forks/ssd/layers/multi_box.h"
#include "layers/net/layer.h"
#include "layers/shapes/shape_reader.h"

namespace moka {
namespace {

void BuildMultiBoxLoss(LayerBuilder& l) {
  const MultiBoxLossParameter& p = l.param().multibox_loss_param();
  CheckMultiBox(l, p);
  const MultiBoxChoice chosen = ChooseBoxes(l, p, true);
  SetMultiBoxLoss(l, chosen, {LocPart(l, p, chosen), ConfPart(l, p, chosen)});
}

// Boxes are rows of 8 numbers, here one an item.
void NeedsOfMultiBoxLoss(const ShapeReader& reader) {
  constexpr int kBoxes = 3;  // the bottom of the truth
  const DataTop* top = reader.has_failed() ? reader.Changeable(kBoxes) : nullptr;
  if (top != nullptr && top->shape.rank() < 4) reader.Require(kBoxes, {1, 1, top->shape[0], 8});
}

}  // namespace

LayerDef MultiBoxLossLayer() {
  return {.type = "MultiBoxLoss",
          .min_bottoms = 4,
          .max_bottoms = 6,
          .auto_tops = true,
          .build = BuildMultiBoxLoss,
          .traits = {.is_loss = true},
          .needs = NeedsOfMultiBoxLoss,
          .params = {"multibox_loss_param", "loss_param"}};
}

}  // namespace moka
