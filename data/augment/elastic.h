// Smooth random displacements (Simard, Steinkraus and Platt, "Best practices for convolutional neural networks applied
// to visual document analysis", 2003): noise, blurred, so that neighbours move alike.
#pragma once

#include "core/rng.h"
#include "data/augment/geometry.h"
#include "proto/moka.pb.h"

namespace moka {

// alpha * (G * n) along each axis: n is uniform in [-1, 1] at each pixel, G a Gaussian of `sigma` pixels whose weights
// sum to 1; noise beyond the border is the mirror image of that inside.
void DrawElastic(const ElasticChange& elastic, int64_t width, int64_t height, RandomStream& random,
                 Displacement& field);

}  // namespace moka
