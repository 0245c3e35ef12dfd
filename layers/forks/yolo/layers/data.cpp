// Data layers of YOLO's ports that no reader is for: lanes (eric612), and boxes in an older fork of AnnotatedData
// (yuqj1991).
#include "layers/forks/yolo/layers/box_top.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

GuessedTypes GuessLaneData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int at, const GuessedPicture& picture) -> Shape {
    return at == 2 ? BoxTop(data, at, picture) : Shape{picture.batch, 5, 64, 3};
  };
  return GuessPictures(layer, {.top = top});
}

GuessedTypes GuessYoloAnnotatedData(const LayerParameter& layer) { return GuessPictures(layer, {.top = BoxTop}); }

}  // namespace

LayerDef LaneDataLayer() {
  return OutsideDataLayer("LaneData", {.guess = GuessLaneData}, 3,
                          {"data_param", "transform_param", "annotated_data_param"});
}

LayerDef YoloAnnotatedDataLayer() {
  return OutsideDataLayer("YoloAnnotatedData", {.guess = GuessYoloAnnotatedData}, 2,
                          {"data_param", "transform_param", "annotated_data_param"});
}

}  // namespace moka
