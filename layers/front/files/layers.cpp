#include "layers/front/files/layers.h"

namespace moka {

std::vector<LayerDef> FileLayers() {
  return {FlowVideoDataLayer(),       Hdf5OutputLayer(),   ImageLabelmapDataLayer(), ImageVideoDataLayer(),
          MultiLabelImageDataLayer(), RgbVideoDataLayer(), SkipGramDataLayer(),      StoryDataLayer(),
          TextPairDataLayer(),        TridimDataLayer(),   VideoDataRnnLayer(),      VideoDataSegLayer(),
          WindowSegDataLayer()};
}

}  // namespace moka
