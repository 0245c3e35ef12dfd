#include "layers/front/sparsity/layers.h"

namespace moka {

std::vector<LayerDef> SparsityLayers() {
  return {DnsConvolutionLayer(), DnsInnerProductLayer(), InqConvolutionLayer(), InqInnerProductLayer()};
}

}  // namespace moka
