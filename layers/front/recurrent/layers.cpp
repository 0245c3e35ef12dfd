#include "layers/front/recurrent/layers.h"

namespace moka {

std::vector<LayerDef> RecurrentLayers() {
  return {CaffeLstmLayer(), EmbedLayer(), LstmLayer(), LstmUnitLayer(), RnnLayer()};
}

}  // namespace moka
