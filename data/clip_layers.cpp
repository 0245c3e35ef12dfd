// VideoData: which of the forks' layers of that name is meant, and its fields.
#include "core/error.h"
#include "core/text.h"
#include "data/clip_maker.h"
#include "proto/places.h"

namespace moka {
namespace {

template <class Parameter>
ClipOptions CommonOptions(const LayerParameter& layer, const Parameter& param, std::string_view message,
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
  clip.base = options.base_folder;
  clip.prefix = param.root_folder();
  clip.seed = DataSeed(options.seed, "augment");
  clip.phase = options.phase;
  clip.frames = frames;
  clip.height = param.new_height();
  clip.width = param.new_width();
  clip.crop_size = transform.crop_size();
  clip.mirror = transform.mirror();
  clip.mean = ReadPixelMean(transform, options.base_folder);
  clip.scale = transform.scale();
  return clip;
}

template <class Parameter>
std::unique_ptr<Pipeline> OpenClips(const LayerParameter& layer, const PipelineOptions& options, const Parameter& param,
                                    std::string_view message, ClipOptions clip) {
  const int64_t batch = CheckedBatch(layer, StrCat(message, ".batch_size"), param.batch_size());
  return OpenListed(layer, options, {.batch = batch, .shuffle = param.shuffle(), .rand_skip = param.rand_skip()},
                    std::make_unique<ClipMaker>(std::move(clip)));
}

[[noreturn]] void Refuse(const LayerParameter& layer, std::string_view field, std::string_view text,
                         std::string_view hint = {}) {
  throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", text), std::string(hint));
}

// C3D: pictures "000001.jpg" of a folder, the transformation among the layer's own fields (1.0) or beside them (1.1).
template <class Parameter>
ClipOptions C3dOptions(const LayerParameter& layer, const Parameter& param, std::string_view message,
                       const TransformationParameter& transform, const PipelineOptions& options) {
  if (!param.use_image()) {
    Refuse(layer, StrCat(message, ".use_image"), "video files are not read",
           "unpack them into a folder of frames 000001.jpg, ... each, and set use_image: true");
  }
  ClipOptions clip = CommonOptions(layer, param, message, transform, options);
  clip.dialect = ClipOptions::Dialect::kVolume;
  clip.pattern = "%06d.jpg";
  clip.jitter = param.use_temporal_jitter();
  clip.step = static_cast<int64_t>(param.sampling_rate());
  if (clip.step < 1 || clip.step > (1 << 16))
    Refuse(layer, StrCat(message, ".sampling_rate"), "sampling_rate must be 1 or more");
  return clip;
}

// Temporal segment networks.
ClipOptions SegmentOptions(const LayerParameter& layer, const PipelineOptions& options) {
  const VideoDataParameter& param = layer.video_data_param();
  const TransformationParameter transform = TransformOf(layer, param);
  ClipOptions clip = CommonOptions(layer, param, "video_data_param", transform, options);
  const bool is_flow = param.modality() == VideoDataParameter::FLOW;
  using Pictures = ClipOptions::Pictures;
  clip.pictures = is_flow ? Pictures::kFlow : param.grayscale() ? Pictures::kGrey : Pictures::kColor;
  clip.pattern = param.name_pattern();
  if (clip.pattern.empty()) clip.pattern = is_flow ? "flow_%c_%04d.jpg" : "image_%04d.jpg";
  clip.segments = param.num_segments();
  if (clip.segments < 1 || clip.segments > (1 << 16)) {
    Refuse(layer, "video_data_param.num_segments", "num_segments must be 1 or more");
  }
  clip.channel_first = param.length_first();
  clip.step = param.step();
  if (param.rand_step()) Refuse(layer, "video_data_param.rand_step", "a random step is not supported");
  if (clip.step < 1 || clip.frames % clip.step != 0) {
    Refuse(layer, "video_data_param.step", "step must divide new_length");
  }
  if (clip.step > 1 && (is_flow || !clip.channel_first)) {
    Refuse(layer, "video_data_param.step", "step is for RGB with length_first only");
  }
  clip.flow_signs = transform.is_flow();
  clip.fix_crop = transform.fix_crop();
  clip.more_fix_crop = transform.more_fix_crop();
  clip.multi_scale = transform.multi_scale();
  clip.scale_ratios.assign(transform.scale_ratios().begin(), transform.scale_ratios().end());
  clip.max_distort = transform.max_distort();
  for (const float ratio : clip.scale_ratios) {
    if (!(ratio > 0 && ratio <= 1)) Refuse(layer, "transform_param.scale_ratios", "scale ratios must be in (0, 1]");
  }
  if (clip.max_distort < 0) Refuse(layer, "transform_param.max_distort", "max_distort must not be negative");
  return clip;
}

}  // namespace

std::unique_ptr<Pipeline> OpenVideoData(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr std::string_view kSegmentFields[] = {"scale",        "mirror",      "crop_size",     "mean_file",
                                                 "mean_value",   "fix_crop",    "more_fix_crop", "multi_scale",
                                                 "scale_ratios", "max_distort", "is_flow"};
  constexpr std::string_view kVolumeFields[] = {"scale", "mirror", "crop_size", "mean_file", "mean_value"};
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
  if (param.has_video_type() || param.has_video_file() || param.has_device_id()) {
    Refuse(layer, "video_data_param", "cameras and video files are not read",
           "unpack the video into pictures and read those");
  }
  if (param.has_num_segments() || param.has_modality() || param.has_name_pattern() || param.has_length_first()) {
    CheckTransformFields(layer, kSegmentFields);
    return OpenClips(layer, options, param, "video_data_param", SegmentOptions(layer, options));
  }
  CheckTransformFields(layer, kVolumeFields);
  const TransformationParameter transform = TransformOf(layer, param);
  if (param.use_multiple_label() || param.use_sampling_rate_jitter()) {
    Refuse(layer,
           param.use_multiple_label() ? "video_data_param.use_multiple_label"
                                      : "video_data_param.use_sampling_rate_jitter",
           "is not supported");
  }
  if (param.has_use_image() || param.has_use_temporal_jitter() || param.has_sampling_rate()) {
    return OpenClips(layer, options, param, "video_data_param",
                     C3dOptions(layer, param, "video_data_param", transform, options));
  }
  ClipOptions clip = CommonOptions(layer, param, "video_data_param", transform, options);
  clip.dialect = ClipOptions::Dialect::kVolume;
  clip.pattern = "image_%04d.jpg";
  clip.pictures = param.is_color() ? ClipOptions::Pictures::kColor : ClipOptions::Pictures::kGrey;
  return OpenClips(layer, options, param, "video_data_param", std::move(clip));
}

}  // namespace moka
