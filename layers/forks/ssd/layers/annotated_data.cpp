// AnnotatedData: images with boxes, read from a database by the data room, which tells the shapes. Ground truth is
// [1,1,G,8] with G the most boxes a batch can have; rows of no box have the item id -1.
#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "layers/forks/yolo/layers/box_top.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"

namespace moka {
namespace {

void BuildAnnotatedData(LayerBuilder& l) {
  const DataParameter& data = l.param().data_param();
  if (l.param().transform_param().caffe_yolo()) {
    l.Check(!data.random(), "data_param.random", "random: true changes the images' size, which is fixed here");
    l.Check(l.top_count() == data.side_size() + 1, "data_param.side",
            StrCat("with caffe_yolo data_param.side must be given once for each top after the first, found ",
                   data.side_size(), " for ", l.top_count() - 1, " tops"));
  } else {
    l.Check(l.top_count() <= 3, "top[3]",
            StrCat("AnnotatedData takes 1 to 3 tops, found ", l.top_count(), "; more need transform_param.caffe_yolo"));
  }
  l.AddData(l.AskDataTypes());
}

// Boxes, or with caffe_yolo difficult, object, class and box of each cell.
GuessedTypes GuessAnnotatedData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int at, const GuessedPicture& picture) -> Shape {
    if (!data.transform_param().caffe_yolo()) return BoxTop(data, at, picture);
    const DataParameter& p = data.data_param();
    const int64_t side = at <= p.side_size() ? std::max<int64_t>(p.side(at - 1), 1) : 1;
    return {picture.batch, (Size(side) * side * 7).value()};
  };
  return GuessPictures(layer, {.top = top});
}

}  // namespace

LayerDef AnnotatedDataLayer() {
  return {.type = "AnnotatedData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildAnnotatedData,
          .traits = {.data = DataKind::kBoxes, .drawn_as = DrawnAs::kData},
          .guess = GuessAnnotatedData,
          .params = {"data_param", "transform_param", "annotated_data_param", "sampling_param"}};
}

}  // namespace moka
