// Layers read backwards: what shapes their bottoms need for a top to have a given one. For looking at nets without
// their data.
#pragma once

#include <optional>
#include <span>

#include "core/types.h"
#include "layers/net/layer.h"
#include "proto/moka.pb.h"

namespace moka {

struct BottomShape {
  int bottom;
  Shape shape;
  bool is_windowed = false;  // height and width are the least that a convolution, or windows that overlap, make them of
};

// A layer whose first top is to have a shape. `known` are its bottoms' present shapes, null where they have none.
struct TopNeed {
  const LayerParameter& layer;
  const Shape& top;
  std::span<const Shape* const> known;

  // The present shape of the first bottom; null if there is none.
  const Shape* x() const { return known.empty() ? nullptr : known[0]; }
};

// Those of the bottoms for which the layer's row says it.
BottomShapes BottomsFor(const TopNeed& need);

// The first bottom of this shape, for rows whose layers ask nothing else; nothing without one.
BottomShapes FirstBottom(const std::optional<Shape>& shape);
// Steps and streams of x [steps,streams,..] and of the marks, from a top [steps,streams,..].
BottomShapes BottomsOfRecurrence(const TopNeed& need);
// The least picture of so many channels that the windows make the top [N,C,H,W] of; none where their fields are not all
// said.
std::optional<BottomShape> BottomUnderWindows(const ConvolutionParameter& p, const Shape& top, int64_t channels);
std::optional<BottomShape> BottomUnderWindows(const PoolingParameter& p, const Shape& top, int64_t channels);

// Spatial axes that the fields speak of, by the values given one an axis; 0 if by none.
int WindowAxes(const ConvolutionParameter& p);
int WindowAxes(const PoolingParameter& p);

}  // namespace moka
