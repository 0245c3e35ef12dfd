// Layers of sequences and of clips that are items, each with the rules of its fork:
//   VideoData, VideoDataRNN       Caffe_action's
//   ImageData of three tops       caffe_qi's, for LRCN
//   RgbVideoData, FlowVideoData   lisa-caffe-lstm's
#include "core/error.h"
#include "core/text.h"
#include "data/data_layers.h"
#include "data/pipeline/clip_maker.h"
#include "data/pipeline/sequence_maker.h"
#include "proto/text/places.h"

namespace moka {
namespace {

constexpr int64_t kMost = 1 << 16;        // frames, steps and segments
constexpr int64_t kMostStacks = 1 << 20;  // of a sample

[[noreturn]] void RefuseSequenceField(const LayerParameter& layer, std::string_view field, std::string_view text) {
  throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", text));
}

int64_t CheckedCount(const LayerParameter& layer, std::string_view field, int64_t count) {
  if (count >= 1 && count <= kMost) return count;
  RefuseSequenceField(layer, field, StrCat(field, " is ", count, ", expected 1..", kMost));
}

template <class Parameter>
SequenceOptions SequenceOf(const LayerParameter& layer, const Parameter& param, std::string_view message,
                           const PipelineOptions& options) {
  CheckSource(layer, StrCat(message, ".source"), param.source());
  CheckNewSize(layer, message, param.new_height(), param.new_width());
  SequenceOptions sequence;
  sequence.list = options.base_folder / param.source();
  sequence.seed = DataSeed(options.seed, "augment");
  SetFrameOptions(param, TransformOf(layer, param), options, sequence);
  sequence.is_color = param.is_color();
  return sequence;
}

// Rows of a batch in samples of several rows each.
int64_t SamplesOf(const LayerParameter& layer, std::string_view message, int64_t batch, int64_t rows) {
  CheckedBatch(layer, StrCat(message, ".batch_size"), batch);
  if (batch % rows == 0) return batch / rows;
  RefuseSequenceField(
      layer, StrCat(message, ".batch_size"),
      StrCat("batch_size is ", batch, ", expected a multiple of the ", rows, " pictures or clips of a video"));
}

// Sets the pictures that a frame has, and what transform_param makes of them. More mean values than planes are the
// fork's habit: the first count.
template <class Options>
void SetActionFrames(const LayerParameter& layer, bool is_color, Options& sample) {
  const VideoDataParameter& param = layer.video_data_param();
  SetCornersAndScales(layer, layer.transform_param(), sample);
  sample.whole_corners = true;
  sample.is_flow = param.modality() == VideoDataParameter::FLOW;
  sample.is_color = !sample.is_flow && is_color;
  if (sample.is_flow && param.has_is_color() && param.is_color()) {
    RefuseSequenceField(layer, "video_data_param.is_color", "pictures of optical flow are grey");
  }
  if (param.suffix().find_first_of("%/") != std::string::npos || param.suffix().empty()) {
    RefuseSequenceField(layer, "video_data_param.suffix",
                        StrCat("suffix \"", Printable(param.suffix()), "\" is no file suffix"));
  }
  sample.pattern = sample.is_flow ? "%d_%c.png" : StrCat("%d.", param.suffix());
  const auto planes =
      static_cast<size_t>(int64_t{param.new_length()} * (sample.is_color ? 3 : 1) * (sample.is_flow ? 2 : 1));
  if (sample.mean.values.size() > planes) sample.mean.values.resize(planes);
}

std::unique_ptr<Pipeline> OpenAction(const LayerParameter& layer, const PipelineOptions& options, bool is_sequence) {
  constexpr std::string_view kFields[] = {"scale",       "mirror",   "crop_size",   "mean_file",
                                          "mean_value",  "fix_crop", "multi_scale", "scale_ratios",
                                          "max_distort", "is_flow",  "num_segments"};
  constexpr std::string_view kMessage = "video_data_param";
  const VideoDataParameter& param = layer.video_data_param();
  CheckTops(layer, is_sequence ? 3 : 2);
  CheckTransformFields(layer, kFields);
  if (param.num_views() != 1)
    RefuseSequenceField(layer, "video_data_param.num_views", "several views are not supported");
  if (param.stride_tmp() != 0) RefuseSequenceField(layer, "video_data_param.stride_tmp", "is not supported");
  const int64_t frames = CheckedCount(layer, "video_data_param.new_length", param.new_length());
  const int64_t segments = CheckedCount(layer, "video_data_param.num_segments", param.num_segments());
  ListFields fields{.shuffle = param.shuffle(), .rand_skip = 0};  // the fork passes over rand_skip
  SequenceOptions sequence = SequenceOf(layer, param, kMessage, options);
  if (!is_sequence) {
    ClipOptions clip;
    static_cast<FrameOptions&>(clip) = sequence;
    clip.list = sequence.list;
    clip.seed = sequence.seed;
    clip.dialect = ClipOptions::Dialect::kItems;
    clip.frames = frames;
    clip.segments = segments;
    SetActionFrames(layer, true, clip);  // RGB is in colour, whatever is_color says
    fields.batch = SamplesOf(layer, kMessage, param.batch_size(), segments);
    return OpenListed(layer, options, fields, std::make_unique<ClipMaker>(std::move(clip)));
  }
  sequence.dialect = SequenceOptions::Dialect::kClips;
  sequence.frames = frames;
  sequence.segments = segments;
  sequence.steps = CheckedCount(layer, "video_data_param.seq_length", param.seq_length());
  sequence.stride = CheckedCount(layer, "video_data_param.stride_seq", param.stride_seq());
  sequence.rolls = param.do_rolling();
  sequence.labelled_steps = param.eval_num();
  if (!param.eval_last())
    RefuseSequenceField(layer, "video_data_param.eval_last", "only the last clips of a sequence have labels");
  if (options.phase == TRAIN && segments != 1) {
    RefuseSequenceField(layer, "video_data_param.num_segments", "a video has one sequence in TRAIN");
  }
  if (sequence.steps * segments > kMostStacks) {
    RefuseSequenceField(layer, "video_data_param.seq_length", StrCat("a video has more than ", kMostStacks, " clips"));
  }
  SetActionFrames(layer, param.has_is_color() && param.is_color(), sequence);  // grey unless is_color is set
  sequence.pictures = sequence.is_flow ? 2 : 1;
  fields.batch = CheckedBatch(layer, "video_data_param.batch_size", param.batch_size());
  return OpenListed(layer, options, fields, std::make_unique<SequenceMaker>(std::move(sequence)));
}

std::unique_ptr<Pipeline> OpenSpread(const LayerParameter& layer, const PipelineOptions& options, bool has_stacks) {
  constexpr std::string_view kFields[] = {"scale", "mirror", "crop_size", "mean_file", "mean_value"};
  constexpr std::string_view kMessage = "image_data_param";
  const ImageDataParameter& param = layer.image_data_param();
  CheckTops(layer);
  CheckTransformFields(layer, kFields);
  if (param.multiview())
    RefuseSequenceField(layer, "image_data_param.multiview", "crops given by the list are not supported");
  SequenceOptions sequence = SequenceOf(layer, param, kMessage, options);
  sequence.dialect = SequenceOptions::Dialect::kSpread;
  sequence.steps = CheckedCount(layer, "image_data_param.pair_size", param.pair_size());
  sequence.jitter = param.rand_frame();
  sequence.jitter_range = CheckedCount(layer, "image_data_param.range_scale", param.range_scale());
  sequence.color_factors = param.color_aug();
  sequence.frames = 0;  // no stack, one picture
  if (has_stacks) {
    sequence.frames = CheckedCount(layer, "image_data_param.frame_num", param.frame_num());
    sequence.pictures = CheckedCount(layer, "image_data_param.pair_size_sub", param.pair_size_sub());
    const bool is_flow = param.read_mode() != 0;
    if (is_flow && param.read_mode() != 4 && param.read_mode() != 5) {
      RefuseSequenceField(layer, "image_data_param.read_mode",
                          StrCat("read_mode is ", param.read_mode(), ", expected 0, 4 or 5"));
    }
    if (is_flow && (sequence.is_color || sequence.pictures > 2)) {
      RefuseSequenceField(layer, "image_data_param.read_mode", "flow has grey pictures, one or two a frame");
    }
    if (is_flow) sequence.turned = sequence.pictures;
    if (param.read_mode() == 4) sequence.flow_bound = static_cast<float>(param.bound());
  }
  return OpenListed(layer, options,
                    {.batch = SamplesOf(layer, kMessage, param.batch_size(), sequence.steps),
                     .shuffle = param.shuffle(),
                     .rand_skip = param.rand_skip()},
                    std::make_unique<SequenceMaker>(std::move(sequence)));
}

std::unique_ptr<Pipeline> OpenVideoDataRnn(const LayerParameter& layer, const PipelineOptions& options) {
  return OpenAction(layer, options, true);
}

std::unique_ptr<Pipeline> OpenRgbVideoData(const LayerParameter& layer, const PipelineOptions& options) {
  return OpenSpread(layer, options, false);
}

std::unique_ptr<Pipeline> OpenFlowVideoData(const LayerParameter& layer, const PipelineOptions& options) {
  return OpenSpread(layer, options, true);
}

}  // namespace

std::unique_ptr<Pipeline> OpenActionVideo(const LayerParameter& layer, const PipelineOptions& options) {
  return OpenAction(layer, options, false);
}

std::unique_ptr<Pipeline> OpenRunData(const LayerParameter& layer, const PipelineOptions& options) {
  constexpr std::string_view kFields[] = {"scale", "mirror", "crop_size", "mean_file", "mean_value"};
  constexpr std::string_view kMessage = "image_data_param";
  constexpr int64_t kSteps = 16;  // of a sequence, in that fork always
  const ImageDataParameter& param = layer.image_data_param();
  CheckTops(layer, 3);
  CheckTransformFields(layer, kFields);
  SequenceOptions sequence = SequenceOf(layer, param, kMessage, options);
  sequence.dialect = SequenceOptions::Dialect::kRun;
  sequence.steps = kSteps;
  return OpenListed(layer, options,
                    {.batch = SamplesOf(layer, kMessage, param.batch_size(), kSteps),
                     .shuffle = param.shuffle(),
                     .rand_skip = param.rand_skip()},
                    std::make_unique<SequenceMaker>(std::move(sequence)));
}

DataLayerRow VideoDataRnnRow() { return {.type = "VideoDataRNN", .open = OpenVideoDataRnn}; }

DataLayerRow RgbVideoDataRow() { return {.type = "RgbVideoData", .open = OpenRgbVideoData}; }

DataLayerRow FlowVideoDataRow() { return {.type = "FlowVideoData", .open = OpenFlowVideoData}; }

}  // namespace moka
