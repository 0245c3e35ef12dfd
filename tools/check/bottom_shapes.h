// Layers read backwards: what shapes their bottoms need for a top to have a given one. For looking at nets without
// their data.
#pragma once

#include <span>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

struct BottomShape {
  int bottom;
  Shape shape;
  bool is_windowed = false;  // height and width are the least that a convolution, or windows that overlap, make them of
};

// Those of the bottoms for which the layer says it. `known` are the bottoms' present shapes, null where they have none.
std::vector<BottomShape> BottomShapes(const LayerParameter& layer, const Shape& top,
                                      std::span<const Shape* const> known);

// Layers whose bottoms all have the top's shape; of Scale and Bias the first.
bool KeepsShape(const std::string& type);

// Spatial axes that the fields of a Convolution or Pooling speak of, by the values given one an axis; 0 if by none.
int WindowAxes(const LayerParameter& layer);

}  // namespace moka
