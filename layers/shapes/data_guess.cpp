// Guesses by input_param where it is given, else by the layer's row: fields that many types of data layers have are
// read into one struct, and sizes that none says are those of data sets known by name.
#include "layers/shapes/data_guess.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/size.h"
#include "core/text.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

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

DataFields CommonFieldsOf(const LayerParameter& layer) {
  DataFields fields;
  if (layer.has_data_param()) ReadSource(layer.data_param(), fields);
  if (layer.has_hdf5_data_param()) ReadSource(layer.hdf5_data_param(), fields);
  if (layer.has_image_data_param()) {
    ReadImages(layer.image_data_param(), fields);
    if (!layer.type().ends_with("ImageData")) fields.frames = layer.image_data_param().new_length();  // of a video
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
  if (Mentions(layer, source, "siamese")) return {2, 28, 28};  // pairs of digits
  if (Mentions(layer, source, "mnist")) return {1, 28, 28};
  if (Mentions(layer, source, "cifar")) return {3, 32, 32};
  return {3, 224, 224};
}

// Returns the height and width left of a picture that is cut to whole strides, and to no more than the upper size.
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

// Labels are mixed in training only.
bool IsOfTest(const LayerParameter& layer) {
  return std::ranges::any_of(layer.include(),
                             [](const NetStateRule& rule) { return rule.phase() == TEST && rule.has_phase(); });
}

// The shapes that input_param gives: of a data layer that a deploy net turned into its input.
GuessedTypes GivenTypes(const LayerParameter& layer) {
  GuessedTypes given;
  for (int i = 0; i < layer.top_size(); ++i) {
    const auto& dims = layer.input_param().shape(std::min(i, layer.input_param().shape_size() - 1)).dim();
    if (dims.empty() || dims.size() > Shape::kMaxRank || std::ranges::any_of(dims, [](int64_t d) { return d < 1; }))
      return {};
    given.types.push_back(Floats(Shape(std::vector<int64_t>(dims.begin(), dims.end()))));
  }
  return given;
}

// Temporal segment networks lay the frames of a clip along the channels.
bool HasSegments(const VideoDataParameter& video) {
  return video.has_num_segments() || video.has_modality() || video.has_name_pattern();
}

int64_t ChannelsOf(const LayerParameter& layer, const DataFields& fields, const Shape& known) {
  const VideoDataParameter& video = layer.video_data_param();
  if (HasSegments(video)) {
    const int64_t each = video.modality() == VideoDataParameter::FLOW ? 2 : 3;
    return (Size(int64_t{video.num_segments()}) * std::max<int64_t>(fields.frames, 1) * each).value();
  }
  // A mean for each channel says how many there are: clips in a database have their frames one after another.
  if (layer.transform_param().mean_value_size() > 1) return layer.transform_param().mean_value_size();
  return fields.is_color ? known[0] : 1;
}

// The first top: [N,C,H,W], or with the frames of clips on an axis of their own.
Shape ImageOf(const LayerParameter& layer, const DataFields& fields, int64_t channels, int64_t h, int64_t w) {
  const VideoDataParameter& video = layer.video_data_param();
  // SSD's VideoData is a camera or one file, shown picture by picture.
  const bool is_camera = video.has_video_type() || video.has_device_id() || video.has_video_file();
  const bool is_clip = !HasSegments(video) && !is_camera && (fields.is_clip || fields.frames > 0);
  if (!is_clip) return {fields.batch, channels, h, w};
  return {fields.batch, channels, std::max<int64_t>(fields.frames, 1), h, w};
}

// A top after the first of whose type no row knows more.
Shape CommonTop(const LayerParameter& layer, int64_t batch) {
  if (layer.has_multi_label_image_data_param())
    return {batch, std::max<int64_t>(layer.multi_label_image_data_param().label_num(), 1)};
  if (layer.transform_param().has_mixing() && !IsOfTest(layer))
    return {batch, std::max<int64_t>(layer.transform_param().mixing().classes(), 1)};
  return {batch};
}

Shape TopOf(const LayerParameter& layer, int top, const PictureRules& rules, const GuessedPicture& picture) {
  if (top == 0) {  // label images may come from a database of their own
    const bool is_label = layer.top(0).find("label") != std::string::npos;
    return is_label ? picture.image.With(1, 1) : picture.image;
  }
  const Shape own = rules.top != nullptr ? rules.top(layer, top, picture) : Shape{};
  const Shape named = KnownTop(layer.top(top), picture.batch);
  if (named.rank() > 0 && !(rules.says_tops && own.rank() > 0)) return named;
  return own.rank() > 0 ? own : CommonTop(layer, picture.batch);
}

}  // namespace

GuessedTypes GuessPictures(const LayerParameter& layer, const PictureRules& rules) {
  DataFields fields = CommonFieldsOf(layer);
  if (rules.read != nullptr) rules.read(layer, fields);
  GuessedTypes guess;
  if (fields.batch <= 0) return guess;
  const Shape known = rules.picture.rank() > 0 ? rules.picture : KnownImage(layer, fields.source);
  const int64_t channels = ChannelsOf(layer, fields, known);
  int64_t h = fields.crop_h > 0 ? fields.crop_h : fields.new_h;
  int64_t w = fields.crop_w > 0 ? fields.crop_w : fields.new_w;
  if (h <= 0 || w <= 0) {
    h = known[1];
    w = known[2];
    guess.assumed = StrCat("images of ", known.ToString());
  } else if (rules.keeps_own_size) {
    guess.assumed = StrCat("images of ", Shape({channels, h, w}).ToString());
  }
  if (fields.is_cut_to_strides) std::tie(h, w) = CutSize(layer.transform_param(), h, w);
  const GuessedPicture picture{.batch = fields.batch, .h = h, .w = w, .image = ImageOf(layer, fields, channels, h, w)};
  std::vector<Shape> shapes;
  if (rules.tops != nullptr) shapes = rules.tops(layer, fields, picture, guess.assumed);
  const bool has_all = shapes.size() >= static_cast<size_t>(layer.top_size());
  for (int i = 0; i < layer.top_size(); ++i)
    guess.types.push_back(Floats(has_all ? shapes[static_cast<size_t>(i)] : TopOf(layer, i, rules, picture)));
  return guess;
}

GuessedTypes GuessedTexts(const LayerParameter& layer, const std::vector<Shape>& shapes) {
  GuessedTypes guess;
  const bool is_known = std::ranges::all_of(shapes, [](const Shape& shape) { return shape.Count() > 0; });
  if (!is_known || !std::cmp_equal(shapes.size(), layer.top_size()) || layer.data_param().batch_size() == 0)
    return guess;
  for (const Shape& shape : shapes) guess.types.push_back(Floats(shape));
  return guess;
}

GuessedTypes GuessTypes(const LayerParameter& layer) {
  if (layer.input_param().shape_size() > 0) return GivenTypes(layer);
  const LayerDef* def = FindLayer(layer.type());
  return def != nullptr && def->guess != nullptr ? def->guess(layer) : GuessPictures(layer, {});
}

}  // namespace moka
