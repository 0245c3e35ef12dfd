#include "layers/front/recurrent/layers.h"

namespace moka {

std::vector<LayerDef> RecurrentLayers() {
  return {CaffeLstmLayer(), EmbedLayer(), GruLayer(), LstmLayer(), LstmUnitLayer(), RnnLayer()};
}

}  // namespace moka
