// Layers that read and write files of labels and results: label images and HDF5. One file each, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> FileLayers();

LayerDef Hdf5OutputLayer();
LayerDef ImageLabelmapDataLayer();
LayerDef WindowSegDataLayer();

}  // namespace moka
