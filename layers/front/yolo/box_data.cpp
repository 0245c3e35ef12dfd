// BoxData (Intel): images and their boxes from a database, read by the data room, which tells their shapes.
#include "layers/front/yolo/layers.h"

namespace moka {
namespace {

void Build(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

}  // namespace

LayerDef BoxDataLayer() {
  return {
      .type = "BoxData",
      .doc =
          "Images [N,C,H,W] and, a top for each data_param.side, their boxes [N,150]: 30 places of (label, x, y, w, "
          "h), zeros where there are fewer.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = -1,
      .build = Build};
}

}  // namespace moka
