// One build function for all: the tops become graph inputs of the types that the data room tells. Holds the rows of
// HDF5Data, VideoData and WindowData.
#include "layers/types/data/outside_data.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/size.h"
#include "layers/net/layer.h"
#include "layers/shapes/data_guess.h"
#include "proto/nets/data_fields.h"

namespace moka {
namespace {

void BuildOutsideData(LayerBuilder& l) {
  const HDF5DataParameter& hdf5 = l.param().hdf5_data_param();
  l.Check(hdf5.scale() == 1 && !hdf5.mirror(), "hdf5_data_param.scale",
          "scale and mirror of hdf5_data_param are not part of Moka; a Power layer scales");
  l.AddData(l.AskDataTypes());
}

// Volumes [N,1,L,H,W] of one channel where crop_size_w is given; otherwise the guess of other picture layers. Either is
// marked as assumed.
GuessedTypes GuessHdf5Data(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& data, const DataFields& fields, const GuessedPicture& /*picture*/,
                       std::string& assumed) -> std::vector<Shape> {
    const TransformationParameter& t = data.transform_param();
    if (t.crop_size_w() == 0) return {};
    assumed = "volumes of one channel";
    const Shape volume{fields.batch, 1, std::max<int64_t>(t.crop_size_l(), 1), std::max<int64_t>(t.crop_size_h(), 1),
                       t.crop_size_w()};
    return std::vector<Shape>(static_cast<size_t>(data.top_size()), volume);
  };
  return GuessPictures(layer, {.keeps_own_size = true, .tops = tops});
}

// A clip's frames have an axis of their own, but for those of segments and of Caffe_action's items.
GuessedTypes GuessVideoData(const LayerParameter& layer) {
  const auto tops = [](const LayerParameter& data, const DataFields& fields, const GuessedPicture& picture,
                       std::string& /*assumed*/) -> std::vector<Shape> {
    if (!IsActionVideo(data)) return {};
    const VideoDataParameter& video = data.video_data_param();
    const int64_t planes = video.modality() == VideoDataParameter::FLOW ? 2 : 3;
    const int64_t segments = std::max<int64_t>(video.num_segments(), 1);
    return {{fields.batch, (Size(std::max<int64_t>(fields.frames, 1)) * planes).value(), picture.h, picture.w},
            {std::max<int64_t>(fields.batch / segments, 1), 1, 1, 1}};
  };
  const auto top = [](const LayerParameter& data, int /*top*/, const GuessedPicture& picture) -> Shape {
    const VideoDataParameter& video = data.video_data_param();
    if (!video.use_multiple_label()) return {};
    return {picture.batch, std::max<int64_t>(video.num_of_labels(), 1)};
  };
  const auto read = [](const LayerParameter& /*layer*/, DataFields& fields) { fields.is_clip = true; };
  return GuessPictures(layer, {.read = read, .tops = tops, .top = top});
}

}  // namespace

LayerDef OutsideDataLayer(std::string type, const OutsideData& what, int max_tops, std::vector<std::string> params) {
  return {.type = std::move(type),
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = max_tops,
          .build = BuildOutsideData,
          .traits = {.data = what.kind, .drawn_as = DrawnAs::kData},
          .guess = what.guess,
          .params = std::move(params)};
}

LayerDef Hdf5DataLayer() {
  return OutsideDataLayer("HDF5Data", {.guess = GuessHdf5Data, .kind = DataKind::kRows}, -1,
                          {"hdf5_data_param", "transform_param"});
}

LayerDef VideoDataLayer() {
  return OutsideDataLayer("VideoData", {.guess = GuessVideoData}, 2,
                          {"video_data_param", "transform_param", "sampling_param"});
}

LayerDef WindowDataLayer() { return OutsideDataLayer("WindowData", {}, 2, {"window_data_param", "transform_param"}); }

}  // namespace moka
