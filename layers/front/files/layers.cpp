#include "layers/front/files/layers.h"

namespace moka {

std::vector<LayerDef> FileLayers() { return {Hdf5OutputLayer(), ImageLabelmapDataLayer(), WindowSegDataLayer()}; }

}  // namespace moka
