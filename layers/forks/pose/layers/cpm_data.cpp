// CPMData: images of people with maps of their joints and limbs.
#include <algorithm>

#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

// Maps of parts, twice, and of what is none.
GuessedTypes GuessCpmData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int /*top*/, const GuessedPicture& picture) -> Shape {
    const CPMTransformationParameter& c = data.cpm_transform_param();
    const int64_t stride = std::max<int64_t>(c.stride(), 1);
    return {picture.batch, 2 * (int64_t{c.num_parts()} + 1), std::max<int64_t>(picture.h / stride, 1),
            std::max<int64_t>(picture.w / stride, 1)};
  };
  return GuessPictures(layer, {.top = top});
}

}  // namespace

LayerDef CpmDataLayer() {
  return OutsideDataLayer("CPMData", {.guess = GuessCpmData}, 2, {"data_param", "cpm_transform_param"});
}

}  // namespace moka
