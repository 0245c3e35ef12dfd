// VideoData: which of the forks' layers of that name is meant, and its fields. And their layers of other names:
//   TridimData      3D-STN's: C3D's VideoData
//   VideoDataSeg    Caffe-3D's: video-caffe's VideoData in grey with pictures of labels
#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/pipeline/clip_maker.h"
#include "proto/nets/data_fields.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr std::string_view kSegmentFields[] = {"scale",        "mirror",      "crop_size",     "mean_file",
                                               "mean_value",   "fix_crop",    "more_fix_crop", "multi_scale",
                                               "scale_ratios", "max_distort", "is_flow"};
constexpr std::string_view kVolumeFields[] = {"scale", "mirror", "crop_size", "mean_file", "mean_value"};

[[noreturn]] void RefuseClipField(const LayerParameter& layer, std::string_view field, std::string_view text,
                                  std::string_view hint = {}) {
  throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", text), std::string(hint));
}

template <class Parameter>
ClipOptions CommonClipOptions(const LayerParameter& layer, const Parameter& param, std::string_view message,
                              const TransformationParameter& transform, const PipelineOptions& options) {
  CheckSource(layer, StrCat(message, ".source"), param.source());
  CheckNewSize(layer, message, param.new_height(), param.new_width());
  constexpr int64_t kMaxFrames = 1 << 16;
  const int64_t frames = param.new_length();
  if (frames < 1 || frames > kMaxFrames) {
    throw ErrorAt(layer, StrCat(message, ".new_length"),
                  StrCat("layer \"", layer.name(), "\": new_length is ", frames, ", expected 1..", kMaxFrames));
  }
  ClipOptions clip;
  clip.list = options.base_folder / param.source();
  clip.seed = DataSeed(options.seed, "augment");
  clip.frames = frames;
  SetFrameOptions(param, transform, options, clip);
  return clip;
}

template <class Parameter>
std::unique_ptr<Pipeline> OpenClips(const LayerParameter& layer, const PipelineOptions& options, const Parameter& param,
                                    std::string_view message, ClipOptions clip) {
  const int64_t batch = CheckedBatch(layer, StrCat(message, ".batch_size"), param.batch_size());
  return OpenListed(layer, options, {.batch = batch, .shuffle = param.shuffle(), .rand_skip = param.rand_skip()},
                    std::make_unique<ClipMaker>(std::move(clip)));
}

template <class Parameter>
void RefuseC3dFields(const LayerParameter& layer, const Parameter& param, std::string_view message) {
  if (param.use_multiple_label()) RefuseClipField(layer, StrCat(message, ".use_multiple_label"), "is not supported");
  if (param.use_sampling_rate_jitter())
    RefuseClipField(layer, StrCat(message, ".use_sampling_rate_jitter"), "is not supported");
}

// C3D: pictures "000001.jpg" of a folder, the transformation among the layer's own fields (1.0) or beside them (1.1).
template <class Parameter>
ClipOptions C3dOptions(const LayerParameter& layer, const Parameter& param, std::string_view message,
                       const TransformationParameter& transform, const PipelineOptions& options) {
  if (!param.use_image()) {
    RefuseClipField(layer, StrCat(message, ".use_image"), "video files are not read",
                    "unpack them into a folder of frames 000001.jpg, ... each, and set use_image: true");
  }
  ClipOptions clip = CommonClipOptions(layer, param, message, transform, options);
  clip.dialect = ClipOptions::Dialect::kVolume;
  clip.pattern = "%06d.jpg";
  clip.jitter = param.use_temporal_jitter();
  clip.step = static_cast<int64_t>(param.sampling_rate());
  if (clip.step < 1 || clip.step > (1 << 16))
    RefuseClipField(layer, StrCat(message, ".sampling_rate"), "sampling_rate must be 1 or more");
  return clip;
}

int64_t SegmentsOf(const LayerParameter& layer) {
  const int64_t segments = layer.video_data_param().num_segments();
  if (segments < 1 || segments > (1 << 16)) {
    RefuseClipField(layer, "video_data_param.num_segments", "num_segments must be 1 or more");
  }
  return segments;
}

// Temporal segment networks.
ClipOptions SegmentOptions(const LayerParameter& layer, const PipelineOptions& options) {
  const VideoDataParameter& param = layer.video_data_param();
  const TransformationParameter transform = TransformOf(layer, param);
  ClipOptions clip = CommonClipOptions(layer, param, "video_data_param", transform, options);
  const bool is_flow = param.modality() == VideoDataParameter::FLOW;
  clip.is_flow = is_flow;
  clip.is_color = !is_flow && !param.grayscale();
  clip.pattern = param.name_pattern();
  if (clip.pattern.empty()) clip.pattern = is_flow ? "flow_%c_%04d.jpg" : "image_%04d.jpg";
  clip.segments = SegmentsOf(layer);
  clip.channel_first = param.length_first();
  clip.step = param.step();
  if (param.rand_step()) RefuseClipField(layer, "video_data_param.rand_step", "a random step is not supported");
  if (clip.step < 1 || clip.frames % clip.step != 0) {
    RefuseClipField(layer, "video_data_param.step", "step must divide new_length");
  }
  if (clip.step > 1 && (is_flow || !clip.channel_first)) {
    RefuseClipField(layer, "video_data_param.step", "step is for RGB with length_first only");
  }
  SetCornersAndScales(layer, transform, clip);
  return clip;
}

std::unique_ptr<Pipeline> OpenVideoData(const LayerParameter& layer, const PipelineOptions& options) {
  CheckTops(layer);
  if (layer.has_image_data_param() && !layer.has_video_data_param()) {
    const ImageDataParameter& param = layer.image_data_param();
    TransformationParameter transform = TransformOf(layer, param);
    if (param.has_mean_value() && transform.mean_value_size() == 0) transform.add_mean_value(param.mean_value());
    CheckTransformFields(layer, kVolumeFields);
    return OpenClips(layer, options, param, "image_data_param",
                     C3dOptions(layer, param, "image_data_param", transform, options));
  }
  const VideoDataParameter& param = layer.video_data_param();
  if (IsActionVideo(layer)) return OpenActionVideo(layer, options);
  if (param.has_video_type() || param.has_video_file() || param.has_device_id()) {
    RefuseClipField(layer, "video_data_param", "cameras and video files are not read",
                    "unpack the video into pictures and read those");
  }
  if (param.has_num_segments() || param.has_modality() || param.has_name_pattern() || param.has_length_first()) {
    CheckTransformFields(layer, kSegmentFields);
    return OpenClips(layer, options, param, "video_data_param", SegmentOptions(layer, options));
  }
  CheckTransformFields(layer, kVolumeFields);
  const TransformationParameter transform = TransformOf(layer, param);
  RefuseC3dFields(layer, param, "video_data_param");
  if (param.has_use_image() || param.has_use_temporal_jitter() || param.has_sampling_rate()) {
    return OpenClips(layer, options, param, "video_data_param",
                     C3dOptions(layer, param, "video_data_param", transform, options));
  }
  ClipOptions clip = CommonClipOptions(layer, param, "video_data_param", transform, options);
  clip.dialect = ClipOptions::Dialect::kVolume;
  clip.pattern = "image_%04d.jpg";
  clip.is_color = param.is_color();
  return OpenClips(layer, options, param, "video_data_param", std::move(clip));
}

std::unique_ptr<Pipeline> OpenTridimData(const LayerParameter& layer, const PipelineOptions& options) {
  const TridimDataParameter& param = layer.tridim_data_param();
  CheckTops(layer);
  CheckTransformFields(layer, kVolumeFields);
  RefuseC3dFields(layer, param, "tridim_data_param");
  return OpenClips(layer, options, param, "tridim_data_param",
                   C3dOptions(layer, param, "tridim_data_param", TransformOf(layer, param), options));
}

// The fork would draw crops and mirrors for the pictures and their labels apart, and subtract the mean from both.
std::unique_ptr<Pipeline> OpenVideoDataSeg(const LayerParameter& layer, const PipelineOptions& options) {
  const VideoDataParameter& param = layer.video_data_param();
  CheckTops(layer);
  CheckTransformFields(layer, {});
  ClipOptions clip = CommonClipOptions(layer, param, "video_data_param", TransformOf(layer, param), options);
  if (clip.mirror || clip.crop_size > 0) {
    RefuseClipField(layer, "video_data_param",
                    "VideoDataSeg neither crops nor mirrors: its labels would not go with it");
  }
  clip.dialect = ClipOptions::Dialect::kVolume;
  clip.pattern = "img_%d.png";
  clip.label_pattern = "label_%d.png";
  clip.is_color = false;
  clip.refuses_deep = true;
  return OpenClips(layer, options, param, "video_data_param", std::move(clip));
}

}  // namespace

DataLayerRow VideoDataRow() { return {.type = "VideoData", .open = OpenVideoData}; }

DataLayerRow TridimDataRow() { return {.type = "TridimData", .open = OpenTridimData}; }

DataLayerRow VideoDataSegRow() { return {.type = "VideoDataSeg", .open = OpenVideoDataSeg}; }

}  // namespace moka
