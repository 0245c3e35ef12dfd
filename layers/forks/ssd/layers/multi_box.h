// The part that MultiBoxLoss and its forks share: matching, mining and the losses of what they chose.
#pragma once

#include <vector>

#include "layers/net/layer.h"

namespace moka {

// The choice of op multibox_match.
struct MultiBoxChoice {
  // [N,P,L,4] for P priors and L classes with places of their own (1 if shared); [N,P,L,12] with polygons.
  ValueId code;
  ValueId weight;   // of each difference
  ValueId target;   // [N,P] classes, -1: not counted; logistic: [N,P,C]
  ValueId matches;  // their number
};

// A part of the loss: its sum times the weight, unless propagate_down is false for its bottom.
struct MultiBoxPart {
  int bottom;
  double weight;
  ValueId sum;
};

// Errors: kConfig at fields of multibox_loss_param that contradict each other.
void CheckMultiBox(const LayerBuilder& l, const MultiBoxLossParameter& p);

// Adds the op over bottoms 0 to 3, and 4 and 5 of RefineDet if `stages`. Requires: CheckMultiBox.
MultiBoxChoice ChooseBoxes(const LayerBuilder& l, const MultiBoxLossParameter& p, bool stages);

MultiBoxPart LocPart(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen);
MultiBoxPart ConfPart(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen);

// Bottom 1 as [N,P,C].
ValueId ConfidencesOf(const LayerBuilder& l, const MultiBoxLossParameter& p, const MultiBoxChoice& chosen);

// Top 0: the parts that count, divided as loss_param says (default: by the matches).
void SetMultiBoxLoss(LayerBuilder& l, const MultiBoxChoice& chosen, const std::vector<MultiBoxPart>& parts);

}  // namespace moka
