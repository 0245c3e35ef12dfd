// BoxData (Intel): images and their boxes from a database, read by the data room, which tells their shapes.
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"

namespace moka {
namespace {

void BuildBoxData(LayerBuilder& l) { l.AddData(l.AskDataTypes()); }

GuessedTypes GuessBoxData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int /*top*/, const GuessedPicture& picture) -> Shape {
    return {picture.batch, int64_t{5} * data.data_param().num_label()};
  };
  return GuessPictures(layer, {.top = top});
}

}  // namespace

LayerDef BoxDataLayer() {
  return {.type = "BoxData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildBoxData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessBoxData,
          .params = {"data_param", "transform_param"}};
}

}  // namespace moka
