// A Reshape's needs: its dims say something of its bottom's shape, in nets that are looked at without their data.
#pragma once

#include "layers/shapes/bottom_shapes.h"
#include "layers/shapes/shape_reader.h"

namespace moka {

// A Reshape that could not be built: with one open dim it needs rows or items that the dims divide, with none as many
// values as they name.
void NeedsOfReshape(const ShapeReader& reader);
// The bottom as [items, values an item], with as many values as the top; nothing unless one dim is -1 and the items are
// known.
BottomShapes BottomsOfReshape(const TopNeed& need);

}  // namespace moka
