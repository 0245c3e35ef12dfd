// ImageData: images named by the lines of a text file, read by the data room, which tells their shapes.
#include <algorithm>

#include "core/size.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"

namespace moka {
namespace {

void BuildImageData(LayerBuilder& l) {
  const ImageDataParameter& p = l.param().image_data_param();
  const bool has_labels = p.label_size() == 0 || p.label(p.label_size() - 1);
  if (p.has_sample_num()) {
    l.Check(l.top_count() == 3 && has_labels, "image_data_param.sample_num",
            StrCat("with sample_num ImageData has 3 tops, found ", l.top_count()));
    l.Check(
        p.has_label_num() && Size(int64_t{p.label_num()}) * int64_t{p.sample_num()} == Size(int64_t{p.batch_size()}),
        "image_data_param.batch_size",
        StrCat("batch_size must be label_num * sample_num = ", p.label_num(), " * ", p.sample_num(), ", found ",
               p.batch_size()));
    l.AddData(l.AskDataTypes());
    return;
  }
  l.Check(l.top_count() != 3 || (has_labels && p.batch_size() % 16 == 0), "image_data_param.batch_size",
          StrCat("with a third top, clip markers, batch_size must be a multiple of 16, found ", p.batch_size()));
  l.Check(l.top_count() >= 2 || !has_labels, "top",
          "ImageData takes 2 tops, images and labels, found 1; label: false is for images alone");
  l.Check(p.rate_height() == 0 && p.rate_width() == 0, "image_data_param.rate_height",
          "rate_height and rate_width are not part of Moka; crop_size in transform_param crops at random");
  l.AddData(l.AskDataTypes());
}

// With sample_num classes are drawn for each batch: pictures of each, then the class of each picture.
GuessedTypes GuessImageData(const LayerParameter& layer) {
  const auto top = [](const LayerParameter& data, int at, const GuessedPicture& /*picture*/) -> Shape {
    const ImageDataParameter& drawn = data.image_data_param();
    if (!drawn.has_sample_num() || at != 1) return {};
    return {std::max<int64_t>(drawn.label_num(), 1)};
  };
  return GuessPictures(layer, {.top = top});
}

}  // namespace

LayerDef ImageDataLayer() {
  return {.type = "ImageData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 3,
          .build = BuildImageData,
          .traits = {.drawn_as = DrawnAs::kData},
          .guess = GuessImageData,
          .params = {"image_data_param", "transform_param", "sampling_param"}};
}

}  // namespace moka
