// Random numbers of a layer: rand(key, stream) in an expression.
#pragma once

#include <cstdint>

#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {

// The layer's stream number, its own by its name. An integer constant of the expression, so exact below 2^53.
inline uint64_t RandomStreamOf(const LayerBuilder& l) {
  return StableHash(l.param().name()) & ((uint64_t{1} << 53U) - 1);
}

// A number in [0,1) for each element, new in each run; `draw` tells a layer's several draws apart.
inline Term Uniform(LayerBuilder& l, uint64_t draw = 0) {
  return Rand(Term::Of(l.RandomKey()), static_cast<double>(RandomStreamOf(l) + draw));
}

}  // namespace moka
