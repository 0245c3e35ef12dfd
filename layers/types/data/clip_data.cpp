// The forks' layers of clips and sequences, read by the data room: TridimData, VideoDataSeg, VideoDataRNN,
// ImageVideoData, RgbVideoData and FlowVideoData.
#include <algorithm>
#include <vector>

#include "core/size.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "layers/types/data/outside_data.h"

namespace moka {
namespace {

GuessedTypes GuessVideoDataSeg(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& /*layer*/, const DataFields& fields, const GuessedPicture& picture,
                       std::string& /*assumed*/) {
    const Shape gray{fields.batch, 1, std::max<int64_t>(fields.frames, 1), picture.h, picture.w};
    return std::vector<Shape>{gray, gray};
  };
  return GuessPictures(layer, {.tops = tops});
}

GuessedTypes GuessVideoDataRnn(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& data, const DataFields& fields, const GuessedPicture& picture,
                       std::string& /*assumed*/) {
    const VideoDataParameter& video = data.video_data_param();
    const int64_t streams = (Size(fields.batch) * std::max<int64_t>(video.num_segments(), 1)).value();
    const int64_t steps = std::max<int64_t>(video.seq_length(), 1);
    const int64_t colors = video.has_is_color() && video.is_color() ? 3 : 1;
    const int64_t planes = video.modality() == VideoDataParameter::FLOW ? 2 : colors;
    const int64_t channels = (Size(std::max<int64_t>(fields.frames, 1)) * planes).value();
    const Shape labels{steps, streams, 1};
    return std::vector<Shape>{{(Size(steps) * streams).value(), channels, picture.h, picture.w}, labels, labels};
  };
  return GuessPictures(layer, {.tops = tops});
}

GuessedTypes GuessImageVideoData(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& /*layer*/, const DataFields& fields, const GuessedPicture& picture,
                       std::string& /*assumed*/) {
    const int64_t channels = fields.is_color ? 3 : 1;
    const int64_t frames = std::max<int64_t>(fields.frames, 1);
    return std::vector<Shape>{{fields.batch, channels, frames, picture.h, picture.w},
                              {fields.batch, channels, picture.h, picture.w},
                              {fields.batch}};
  };
  return GuessPictures(layer, {.tops = tops});
}

GuessedTypes GuessRgbVideoData(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& /*layer*/, const DataFields& fields, const GuessedPicture& picture,
                       std::string& /*assumed*/) {
    const int64_t channels = fields.is_color ? 3 : 1;
    return std::vector<Shape>{{fields.batch, channels, picture.h, picture.w}, {fields.batch, 2, 1, 1}};
  };
  return GuessPictures(layer, {.tops = tops});
}

GuessedTypes GuessFlowVideoData(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& data, const DataFields& fields, const GuessedPicture& picture,
                       std::string& /*assumed*/) {
    const ImageDataParameter& p = data.image_data_param();
    const int64_t channels = fields.is_color ? 3 : 1;
    const int64_t planes = (Size(int64_t{p.frame_num()}) * int64_t{p.pair_size_sub()} * channels).value();
    return std::vector<Shape>{{fields.batch, std::max<int64_t>(planes, 1), picture.h, picture.w},
                              {fields.batch, 2, 1, 1}};
  };
  return GuessPictures(layer, {.tops = tops});
}

}  // namespace

LayerDef TridimDataLayer() {
  return OutsideDataLayer("TridimData", {}, 2, {"tridim_data_param", "transform_param", "sampling_param"});
}

LayerDef VideoDataSegLayer() {
  return OutsideDataLayer("VideoDataSeg", {.guess = GuessVideoDataSeg}, 2, {"video_data_param"});
}

LayerDef VideoDataRnnLayer() {
  return OutsideDataLayer("VideoDataRNN", {.guess = GuessVideoDataRnn}, 3,
                          {"video_data_param", "transform_param", "sampling_param"});
}

LayerDef ImageVideoDataLayer() {
  return OutsideDataLayer("ImageVideoData", {.guess = GuessImageVideoData}, 3, {"video_data_param", "transform_param"});
}

LayerDef RgbVideoDataLayer() {
  return OutsideDataLayer("RgbVideoData", {.guess = GuessRgbVideoData}, 2, {"image_data_param", "transform_param"});
}

LayerDef FlowVideoDataLayer() {
  return OutsideDataLayer("FlowVideoData", {.guess = GuessFlowVideoData}, 2, {"image_data_param", "transform_param"});
}

}  // namespace moka
