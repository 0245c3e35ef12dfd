// The derivative of overlaps with respect to a predicted box, as darknet's yolo_layer has it.
#pragma once

#include <string_view>

#include "layers/forks/yolo/ops/boxes.h"

namespace moka {

// dOverlap/d(x, y, w, h) of the predicted box, `kind` one of "iou", "giou", "diou", "ciou". As in darknet w and h move
// both edges by 1, not by a half, and for boxes apart only the fork's additional term is left.
YoloBox OverlapSlope(const YoloBox& box, const YoloBox& truth, std::string_view kind);

// The overlap of this kind; "mse" stands for the plain one.
double OverlapOf(const YoloBox& box, const YoloBox& truth, std::string_view kind);

}  // namespace moka
