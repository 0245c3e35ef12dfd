// Licence plates with their characters (yuqj1991/caffe_train, from the CCPD data set).
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

// The characters of a plate.
GuessedTypes GuessCcpdData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& /*layer*/, int /*top*/, const GuessedPicture& picture) -> Shape {
    return {picture.batch, 7};
  };
  return GuessPictures(layer, {.top = top});
}

}  // namespace

LayerDef CcpdDataLayer() {
  return OutsideDataLayer("ccpdData", {.guess = GuessCcpdData}, 2, {"data_param", "transform_param"});
}

}  // namespace moka
