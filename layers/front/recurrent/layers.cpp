#include "layers/front/recurrent/layers.h"

namespace moka {

std::vector<LayerDef> RecurrentLayers() {
  return {CaffeLstmLayer(), EmbedLayer(), EmbedSumLayer(), GruLayer(), LstmLayer(), LstmUnitLayer(), RnnLayer()};
}

}  // namespace moka
