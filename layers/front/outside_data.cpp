// Data layers whose tops' shapes only their source knows: the data room is asked for them.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

LayerDef Row(std::string type, std::string doc, int max_tops) {
  return {.type = std::move(type),
          .doc = std::move(doc),
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = max_tops,
          .build = Build};
}

}  // namespace

LayerDef Hdf5DataLayer() {
  return Row(
      "HDF5Data",
      "A top for each dataset of its name in the HDF5 files that the text file hdf5_data_param.source lists; the "
      "rows of a batch are the first axis.",
      -1);
}

LayerDef VideoDataLayer() {
  return Row("VideoData",
             "Clips [N,C,frames,H,W] of a list of videos, or frames of a camera or video file, and labels.", 2);
}

LayerDef WindowDataLayer() {
  return Row("WindowData", "Windows of images for R-CNN [N,C,crop_size,crop_size] and their labels [N].", 2);
}

}  // namespace moka
