// Regions and boxes as values of a graph: their columns, boxes moved by deltas.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moka {

// Parts of axis 1 of these sizes.
std::vector<ValueId> Columns(const GraphBuilder& b, ValueId x, Ints sizes);
// All of axis 1, one each.
std::vector<ValueId> Columns(const GraphBuilder& b, ValueId x);
// The parts side by side along axis 1.
ValueId Beside(const GraphBuilder& b, const std::vector<ValueId>& parts);

// Boxes [N,4] moved by deltas [N,4] (py-faster-rcnn's bbox_transform_inv): columns x1, y1, x2, y2.
std::vector<ValueId> Moved(const GraphBuilder& b, ValueId boxes, ValueId deltas);

// Columns x1, y1, x2, y2 as regions [N,5] of image 0.
ValueId AsRois(const GraphBuilder& b, const std::vector<ValueId>& columns);

}  // namespace moka
