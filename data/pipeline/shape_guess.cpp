#include "data/pipeline/shape_guess.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "core/size.h"
#include "core/text.h"
#include "data/pipeline/open_layers.h"
#include "data/pipeline/text_layers.h"

namespace moka {
namespace {

// What the data layers have in common.
struct DataFields {
  int64_t batch = 0;
  std::string source;
  int64_t crop_h = 0;
  int64_t crop_w = 0;
  int64_t new_h = 0;
  int64_t new_w = 0;
  int64_t frames = 0;
  bool is_color = true;
};

template <class Parameter>
void ReadSource(const Parameter& p, DataFields& fields) {
  fields.batch = p.batch_size();
  fields.source = p.source();
}

template <class Parameter>
void ReadImages(const Parameter& p, DataFields& fields) {
  ReadSource(p, fields);
  fields.new_h = p.new_height();
  fields.new_w = p.new_width();
  fields.is_color = p.is_color();
}

// The whole number that follows a word of a Python layer's parameters, as in "{'batch_size': 8}"; 0 if none does.
int64_t NumberAfter(const std::string& text, std::string_view word) {
  size_t at = text.find(word);
  if (at == std::string::npos) return 0;
  at = text.find_first_not_of("'\":= \t", at + word.size());
  int64_t number = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at, text.data() + text.size(), number);
  return std::max<int64_t>(number, 0);
}

DataFields ShapeGuessFieldsOf(const LayerParameter& layer) {
  DataFields fields;
  if (layer.type() == "Python") {
    fields.source = layer.python_param().param_str();
    const int64_t batch = NumberAfter(fields.source, "batch_size");
    fields.batch = std::max<int64_t>(batch > 0 ? batch : NumberAfter(fields.source, "batchsize"), 1);
    fields.new_h = NumberAfter(fields.source, "'imh'");
    fields.new_w = NumberAfter(fields.source, "'imw'");
  }
  if (layer.has_data_param()) ReadSource(layer.data_param(), fields);
  if (layer.type() == "SegData") {
    fields.source = layer.seg_data_param().source();
    fields.batch = 1;
  }
  if (layer.has_hdf5_data_param()) ReadSource(layer.hdf5_data_param(), fields);
  if (layer.has_image_data_param()) {
    ReadImages(layer.image_data_param(), fields);
    fields.frames = layer.image_data_param().new_length();
    fields.crop_h = fields.crop_w = layer.image_data_param().crop_size();
    const int64_t shorter = std::max(layer.image_data_param().short_side(), layer.image_data_param().new_dim());
    if (shorter > 0) fields.new_h = fields.new_w = shorter;
  }
  if (layer.has_multi_label_image_data_param()) ReadImages(layer.multi_label_image_data_param(), fields);
  if (layer.has_video_data_param()) {
    ReadImages(layer.video_data_param(), fields);
    fields.frames = layer.video_data_param().new_length();
  }
  if (layer.has_tridim_data_param()) {
    ReadImages(layer.tridim_data_param(), fields);
    fields.frames = layer.tridim_data_param().new_length();
    fields.is_color = true;
  }
  if (layer.has_window_data_param()) {
    ReadSource(layer.window_data_param(), fields);
    fields.crop_h = fields.crop_w = layer.window_data_param().crop_size();
  }
  if (layer.has_dense_image_data_param()) {
    ReadImages(layer.dense_image_data_param(), fields);
    fields.crop_h = layer.dense_image_data_param().crop_height();
    fields.crop_w = layer.dense_image_data_param().crop_width();
  }
  if (layer.has_record_data_param()) {
    fields.new_h = layer.record_data_param().height();
    fields.new_w = layer.record_data_param().width();
    if (layer.record_data_param().canvas_height() > 0) {
      fields.new_h = layer.record_data_param().canvas_height();
      fields.new_w = layer.record_data_param().canvas_width();
    }
  }
  const TransformationParameter& t = layer.transform_param();
  if (t.resize_param_size() > 0) {
    fields.new_h = t.resize_param(0).height();
    fields.new_w = t.resize_param(0).width();
  }
  if (t.resize_param_size() == 0 && t.resize_param_yolo_size() > 0) {
    fields.new_h = t.resize_param_yolo(0).height();
    fields.new_w = t.resize_param_yolo(0).width();
  }
  if (layer.has_cpm_transform_param()) {
    fields.crop_h = layer.cpm_transform_param().crop_size_y();
    fields.crop_w = layer.cpm_transform_param().crop_size_x();
  }
  if (t.has_random_resize_param()) fields.new_h = fields.new_w = t.random_resize_param().min_size();
  for (const auto& [h, w] : {std::pair{t.crop_h(), t.crop_w()}, std::pair{t.crop_height(), t.crop_width()},
                             std::pair{t.crop_size(), t.crop_size()}}) {
    if (h > 0) fields.crop_h = h;
    if (w > 0) fields.crop_w = w;
  }
  if (t.force_gray() || t.force_color()) fields.is_color = t.force_color();
  return fields;
}

bool Mentions(const LayerParameter& layer, const std::string& source, std::string_view word) {
  return AsciiLower(source).find(word) != std::string::npos ||
         AsciiLower(layer.name()).find(word) != std::string::npos ||
         AsciiLower(layer.transform_param().mean_file()).find(word) != std::string::npos;
}

// An image the size of which no field says: data sets that everybody knows by name.
Shape KnownImage(const LayerParameter& layer, const std::string& source) {
  if (layer.type() == "DenseImageData") return {3, 360, 480};  // CamVid, which SegNet's recipes are for
  if (Mentions(layer, source, "siamese")) return {2, 28, 28};  // pairs of digits
  if (Mentions(layer, source, "mnist")) return {1, 28, 28};
  if (Mentions(layer, source, "cifar")) return {3, 32, 32};
  return {3, 224, 224};
}

// What SegData leaves of a picture: whole strides, and no more than the upper size.
std::pair<int64_t, int64_t> CutSize(const TransformationParameter& t, int64_t h, int64_t w) {
  const int64_t stride = std::max<int64_t>(t.stride(), 1);
  const int64_t most_h = t.has_upper_size() ? t.upper_size() : t.has_upper_height() ? t.upper_height() : h;
  const int64_t most_w = t.has_upper_size() ? t.upper_size() : t.has_upper_width() ? t.upper_width() : w;
  return {std::max<int64_t>(std::min(h / stride * stride, most_h), 1),
          std::max<int64_t>(std::min(w / stride * stride, most_w), 1)};
}

TensorType Floats(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

// Tops that detection nets of every kind name alike; rank 0 for others.
Shape KnownTop(const std::string& name, int64_t batch) {
  if (name == "gt_boxes") return {64, 5};
  if (name == "rois") return {128, 5};
  if (name == "im_info") return {batch, 3};
  return {};
}

// Shapes of the forks' layers of clips and sequences, one a top they can have; none for other layers.
std::vector<Shape> GuessClips(const LayerParameter& layer, const DataFields& fields, int64_t h, int64_t w) {
  const VideoDataParameter& video = layer.video_data_param();
  const bool is_flow = video.modality() == VideoDataParameter::FLOW;
  const Size frames = std::max<int64_t>(fields.frames, 1);
  const int64_t segments = std::max<int64_t>(video.num_segments(), 1);
  if (layer.type() == "VideoDataRNN") {
    const int64_t streams = (Size(fields.batch) * segments).value();
    const int64_t steps = std::max<int64_t>(video.seq_length(), 1);
    const int64_t colors = video.has_is_color() && video.is_color() ? 3 : 1;
    const Shape labels{steps, streams, 1};
    return {{(Size(steps) * streams).value(), (frames * (is_flow ? 2 : colors)).value(), h, w}, labels, labels};
  }
  if (layer.type() == "VideoData" && IsActionVideo(layer)) {
    return {{fields.batch, (frames * (is_flow ? 2 : 3)).value(), h, w},
            {std::max<int64_t>(fields.batch / segments, 1), 1, 1, 1}};
  }
  const int64_t channels = fields.is_color ? 3 : 1;
  if (layer.type() == "RgbVideoData") return {{fields.batch, channels, h, w}, {fields.batch, 2, 1, 1}};
  if (layer.type() == "FlowVideoData") {
    const ImageDataParameter& p = layer.image_data_param();
    const int64_t planes = (Size(int64_t{p.frame_num()}) * int64_t{p.pair_size_sub()} * channels).value();
    return {{fields.batch, std::max<int64_t>(planes, 1), h, w}, {fields.batch, 2, 1, 1}};
  }
  if (layer.type() == "ImageVideoData") {
    return {{fields.batch, channels, frames.value(), h, w}, {fields.batch, channels, h, w}, {fields.batch}};
  }
  if (layer.type() == "VideoDataSeg") {
    const Shape grey{fields.batch, 1, frames.value(), h, w};
    return {grey, grey};
  }
  if (layer.type() == "HDF5Data" && layer.transform_param().crop_size_w() > 0) {  // volumes in grey
    const TransformationParameter& t = layer.transform_param();
    const Shape volume{fields.batch, 1, std::max<int64_t>(t.crop_size_l(), 1), std::max<int64_t>(t.crop_size_h(), 1),
                       t.crop_size_w()};
    return std::vector<Shape>(static_cast<size_t>(layer.top_size()), volume);
  }
  return {};
}

// A further top of RecordData, with one of what its records may have several of; rank 0 for other layers.
Shape RecordTop(const LayerParameter& layer, int top, int64_t batch, int64_t h, int64_t w) {
  const RecordDataParameter& p = layer.record_data_param();
  if (layer.type() != "RecordData" || top >= p.output_size()) return {};
  switch (p.output(top)) {
    case RecordDataParameter::TARGETS: return {batch, 1};
    case RecordDataParameter::BOXES: return {1, 1, (Size(batch) * std::max<int64_t>(p.max_boxes(), 1)).value(), 8};
    case RecordDataParameter::MASK:
    case RecordDataParameter::INSTANCES: return {batch, 1, h, w};
    case RecordDataParameter::POINTS: return {batch, 1, 3};
    case RecordDataParameter::TEXTS: return {batch, 1, int64_t{p.text_length()}};
    default: return {};
  }
}

// A further top of the forks' layers of boxes, faces and people; rank 0 for other layers.
Shape ObjectTop(const LayerParameter& layer, int top, int64_t batch, int64_t h, int64_t w) {
  const std::string& type = layer.type();
  const AnnotatedDataParameter& p = layer.annotated_data_param();
  const bool has_boxes = type == "AnnotatedData" || type == "YoloAnnotatedData";
  if ((has_boxes || type == "LaneData") && top == 2) {
    if (p.seg_resize_width() > 0 && p.seg_resize_height() > 0)
      return {batch, 1, p.seg_resize_height(), p.seg_resize_width()};
    const int64_t scale = std::max(p.seg_scales(), 1);
    return {batch, 1, std::max<int64_t>(h / scale, 1), std::max<int64_t>(w / scale, 1)};
  }
  if (type == "LaneData") return {batch, 5, 64, 3};
  if (has_boxes && p.yolo_data_type() == 1) return {batch, 1, 300, 5};
  if (has_boxes) return {p.yoloformat() ? batch : 1, 1, batch, p.has_landmarks() ? 19 : 8};
  if (type == "faceAttributeData") return {batch, layer.phase() == TRAIN ? 15 : 17};
  if (type == "CPMData") {
    const CPMTransformationParameter& c = layer.cpm_transform_param();
    const int64_t stride = std::max<int64_t>(c.stride(), 1);
    return {batch, 2 * (int64_t{c.num_parts()} + 1), std::max<int64_t>(h / stride, 1),
            std::max<int64_t>(w / stride, 1)};
  }
  // Classes drawn for each batch: pictures of each, then the class of each picture.
  const ImageDataParameter& drawn = layer.image_data_param();
  if (type == "ImageData" && drawn.has_sample_num() && top == 1) return {std::max<int64_t>(drawn.label_num(), 1)};
  return {};
}

// Labels are mixed in training only.
bool IsOfTest(const LayerParameter& layer) {
  return std::ranges::any_of(layer.include(),
                             [](const NetStateRule& rule) { return rule.phase() == TEST && rule.has_phase(); });
}

}  // namespace

GuessedTypes GuessTypes(const LayerParameter& layer) {
  const DataFields fields = ShapeGuessFieldsOf(layer);
  GuessedTypes guess;
  if (layer.input_param().shape_size() > 0) {  // a data layer that a deploy net turned into its input
    for (int i = 0; i < layer.top_size(); ++i) {
      const auto& dims = layer.input_param().shape(std::min(i, layer.input_param().shape_size() - 1)).dim();
      if (dims.empty() || dims.size() > Shape::kMaxRank || std::ranges::any_of(dims, [](int64_t d) { return d < 1; }))
        return {};
      guess.types.push_back(Floats(Shape(std::vector<int64_t>(dims.begin(), dims.end()))));
    }
    return guess;
  }
  if (fields.batch <= 0) return guess;
  if (layer.type() == "TextPairData" || layer.type() == "StoryData" || layer.type() == "SkipGramData") {
    for (const Shape& shape : GuessTexts(layer, guess.assumed)) guess.types.push_back(Floats(shape));
    return guess;
  }
  const Shape known = KnownImage(layer, fields.source);
  int64_t channels = fields.is_color ? known[0] : 1;
  // A mean for each channel says how many there are: clips in a database have their frames one after another.
  if (layer.transform_param().mean_value_size() > 1) channels = layer.transform_param().mean_value_size();
  int64_t h = fields.crop_h > 0 ? fields.crop_h : fields.new_h;
  int64_t w = fields.crop_w > 0 ? fields.crop_w : fields.new_w;
  if (h <= 0 || w <= 0) {
    h = known[1];
    w = known[2];
    guess.assumed = StrCat("images of ", known.ToString());
  } else if (layer.type() == "HDF5Data") {  // which crops volumes only, whatever stands there
    guess.assumed = StrCat("images of ", Shape({channels, h, w}).ToString());
  }
  if (layer.type() == "SegData") std::tie(h, w) = CutSize(layer.transform_param(), h, w);
  const std::vector<Shape> clips = GuessClips(layer, fields, h, w);
  if (clips.size() >= static_cast<size_t>(layer.top_size())) {
    if (layer.type() == "HDF5Data") guess.assumed = "volumes of one channel";
    for (int i = 0; i < layer.top_size(); ++i) guess.types.push_back(Floats(clips[static_cast<size_t>(i)]));
    return guess;
  }
  const VideoDataParameter& video = layer.video_data_param();
  const bool has_segments = video.has_num_segments() || video.has_modality() || video.has_name_pattern();
  if (has_segments) {  // temporal segment networks lay the frames of a clip along the channels
    const int64_t each = video.modality() == VideoDataParameter::FLOW ? 2 : 3;
    channels = (Size(int64_t{video.num_segments()}) * std::max<int64_t>(fields.frames, 1) * each).value();
  }
  const bool has_label_image = layer.type() == "DenseImageData" || layer.type() == "ImageLabelmapData" ||
                               layer.type() == "ImageSegData" || layer.type() == "SegData" ||
                               layer.type() == "WindowSegData";
  const int64_t divide = std::max<int64_t>(
      static_cast<int64_t>(std::min(layer.dense_image_data_param().label_divide_factor(), 1024.0F)), 1);
  // Volumes in files say their size themselves; C3D's have 16 frames.
  const bool is_volume = layer.type() == "VideoSegmentationData" || layer.type() == "VideoWithVoxelTruthData";
  // SSD's VideoData is a camera or one file, shown picture by picture.
  const bool is_camera = video.has_video_type() || video.has_device_id() || video.has_video_file();
  const bool is_clip = !has_segments && !is_camera && (layer.type() == "VideoData" || fields.frames > 0 || is_volume);
  const int64_t frames = fields.frames > 0 ? fields.frames : is_volume ? 16 : 1;
  const Shape image = is_clip ? Shape{fields.batch, channels, frames, h, w} : Shape{fields.batch, channels, h, w};
  for (int i = 0; i < layer.top_size(); ++i) {
    if (i == 0 && layer.top(i).find("label") != std::string::npos) {
      guess.types.push_back(Floats(image.With(1, 1)));  // label images from a database of their own
    } else if (i == 0) {
      guess.types.push_back(Floats(image));
    } else if (const Shape part = RecordTop(layer, i, fields.batch, h, w); part.rank() > 0) {
      guess.types.push_back(Floats(part));
    } else if (const Shape top = KnownTop(layer.top(i), fields.batch); top.rank() > 0) {
      guess.types.push_back(Floats(top));
    } else if (layer.type() == "AnnotatedData" &&
               layer.transform_param().caffe_yolo()) {  // cells of difficult, object, class and box
      const int64_t side =
          i <= layer.data_param().side_size() ? std::max<int64_t>(layer.data_param().side(i - 1), 1) : 1;
      guess.types.push_back(Floats({fields.batch, (Size(side) * side * 7).value()}));
    } else if (const Shape objects = ObjectTop(layer, i, fields.batch, h, w); objects.rank() > 0) {
      guess.types.push_back(Floats(objects));
    } else if (has_label_image && i == 1) {
      guess.types.push_back(
          Floats({fields.batch, 1, std::max<int64_t>(h / divide, 1), std::max<int64_t>(w / divide, 1)}));
    } else if (has_label_image) {
      guess.types.push_back(Floats({fields.batch, 1, 1, 2}));  // heights and widths
    } else if (layer.type() == "VideoData" && video.use_multiple_label()) {
      guess.types.push_back(Floats({fields.batch, std::max<int64_t>(video.num_of_labels(), 1)}));
    } else if (layer.type() == "ccpdData") {
      guess.types.push_back(Floats({fields.batch, 7}));  // the characters of a plate
    } else if (is_volume) {
      const int64_t truths =
          layer.type() == "VideoSegmentationData" ? 1 : layer.image_data_param().num_truth_channels();
      guess.types.push_back(Floats(image.With(1, std::max<int64_t>(truths, 1))));
    } else if (layer.type() == "BoxData") {
      guess.types.push_back(Floats({fields.batch, int64_t{5} * layer.data_param().num_label()}));
    } else if (layer.has_multi_label_image_data_param()) {
      guess.types.push_back(
          Floats({fields.batch, std::max<int64_t>(layer.multi_label_image_data_param().label_num(), 1)}));
    } else if (layer.type() == "MultilabelImageData" || layer.type() == "MultiLabelImageData") {
      guess.types.push_back(
          Floats({fields.batch, std::max<int64_t>(layer.image_data_param().multilabel_num(), 1), 1, 1}));
    } else if (layer.transform_param().has_mixing() && !IsOfTest(layer)) {
      guess.types.push_back(Floats({fields.batch, std::max<int64_t>(layer.transform_param().mixing().classes(), 1)}));
    } else {
      guess.types.push_back(Floats({fields.batch}));
    }
  }
  return guess;
}

}  // namespace moka
