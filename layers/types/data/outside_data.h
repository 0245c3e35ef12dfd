// Data layers whose tops' shapes only their source knows: the data room, which reads it, is asked for them.
#pragma once

#include <string>
#include <vector>

#include "layers/net/layer.h"

namespace moka {

// The parts of such a layer's row that say how its tops are guessed, and where it has them from.
struct OutsideData {
  GuessedTypes (*guess)(const LayerParameter&) = nullptr;
  DataKind kind = DataKind::kOther;
};

// A layer type without bottoms and with up to `max_tops` tops (-1: any number).
LayerDef OutsideDataLayer(std::string type, const OutsideData& what, int max_tops, std::vector<std::string> params);

}  // namespace moka
