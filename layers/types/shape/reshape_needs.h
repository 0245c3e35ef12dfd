// A Reshape's needs: its dims say something of its bottom's shape, in nets that are looked at without their data.
#pragma once

#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"

namespace moka {

// A Reshape whose dims are all given counts its bottom: so many items, or values an item.
void NeedsOfReshape(const ShapeReader& reader);
// Items in rows, if the fields leave the top's shape open.
BottomShapes BottomsOfReshape(const TopNeed& need);

}  // namespace moka
