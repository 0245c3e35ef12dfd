// ImageData: images named by the lines of a text file, read by the data room, which tells their shapes.
#include "layers/front/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef ImageDataLayer() {
  return {.type = "ImageData",
          .doc = "Images and labels from a list of files (lines \"path label\"), transformed by transform_param.",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 2,
          .max_tops = 2,
          .build = Build};
}

}  // namespace moka
