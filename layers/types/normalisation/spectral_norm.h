// Spectral normalisation of a layer's weights (Miyato et al., arXiv 1802.05957).
#pragma once

#include "layers/net/layer.h"

namespace moka {

// The weights W as the layer uses them: W itself unless the layer has a spectral_norm_param, else W / s with s about
// the largest singular value of W as a matrix [outputs, the rest], `outputs` being the size of `axis`; the matrices of
// groups are taken as one, as in PyTorch. Blob `index` [outputs] is u, the power method's vector, a statistic: TRAIN
// makes `iterations` steps v = W^T u / |W^T u|, u = W v / |W v| from it and keeps the last u; TEST makes v alone. Then
// s = u^T W v, through which the gradient goes to W, but not to u and v.
ValueId SpectrallyNormal(LayerBuilder& l, ValueId weights, int axis, int index);

}  // namespace moka
