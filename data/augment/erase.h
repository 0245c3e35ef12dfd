// Rectangles overwritten in finished samples: random erasing (Zhong et al., arXiv 1708.04896) and cutout (DeVries and
// Taylor, arXiv 1708.04552).
#pragma once

#include <span>

#include "core/rng.h"
#include "core/types.h"
#include "data/image/image.h"
#include "proto/moka.pb.h"

namespace moka {

// The rectangle; empty when none of ten tries fits the sample.
ImageWindow DrawErasing(const Erasing& erasing, int64_t width, int64_t height, RandomStream& random);
// A sample [C,H,W]: the rectangle's values become 0, or N(0, 1) each.
void EraseWindow(const Erasing& erasing, const ImageWindow& window, const Shape& shape, RandomStream& random,
                 std::span<float> sample);

}  // namespace moka
