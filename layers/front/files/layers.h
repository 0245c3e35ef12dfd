// Layers that read and write files: lists of labels, label images, clips and sequences, texts, HDF5. One file each or
// one a family, alphabetical.
#pragma once

#include <vector>

#include "layers/layer.h"

namespace moka {

std::vector<LayerDef> FileLayers();

LayerDef FlowVideoDataLayer();
LayerDef Hdf5OutputLayer();
LayerDef ImageLabelmapDataLayer();
LayerDef ImageVideoDataLayer();
LayerDef MultiLabelImageDataLayer();
LayerDef RgbVideoDataLayer();
LayerDef SkipGramDataLayer();
LayerDef StoryDataLayer();
LayerDef TextPairDataLayer();
LayerDef TridimDataLayer();
LayerDef VideoDataRnnLayer();
LayerDef VideoDataSegLayer();
LayerDef WindowSegDataLayer();

}  // namespace moka
