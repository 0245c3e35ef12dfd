// A net for pictures that are smaller than those it was trained on: it sees as much in them without its first strides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// The net, whose pictures were `taken` [1,C,S,S] in the blob `input`, for pictures of `side` pixels: of the strides of
// 2 that come first as many are taken out as bring S / side nearest to 1. Nothing where none should be, and for a net
// that cannot do without: one whose first strides are others, or whose weights would have other shapes.
std::optional<NetParameter> FinerNet(const NetParameter& net, const std::string& input, const Shape& taken,
                                     int64_t side);

}  // namespace moka
