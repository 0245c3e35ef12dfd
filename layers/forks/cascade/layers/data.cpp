// The data layers of MS-CNN, Cascade R-CNN and makefile/frcnn. Reading window files is not part of them: their tops are
// inputs fed by the caller, of the shapes below. Where the originals' batches differ in size the shape is what their
// layers are set up with; boxes have 64 rows an image, of which those that are not used are -1.
#include "layers/forks/cascade/layers/fields.h"
#include "layers/net/layer.h"

namespace moka {
namespace {

constexpr int64_t kBoxesAnImage = 64;

TensorType Floats(const Shape& shape) { return {DType::kFloat32, shape, {}}; }

Shape Boxes(int64_t batch, int64_t columns) { return Shape{(Size(batch) * kBoxesAnImage).value(), columns, 1, 1}; }

int64_t BatchOf(const LayerBuilder& l, const std::string& field, uint32_t value) {
  l.Check(value >= 1, field, StrCat(field, " must be given, at least 1"));
  return value;
}

struct Image {
  int64_t height = 0;
  int64_t width = 0;
};

void CheckImage(const LayerBuilder& l, const std::string& message, const Image& image, const std::string& fields) {
  l.Check(image.height >= 1 && image.width >= 1, message,
          StrCat(message, ": the image's size must be given (", fields, "); it is not read from the source"));
}

// The maps of labels, one an anchor, and the objects' boxes.
template <class Parameter, class Strides>
void FeedLabels(LayerBuilder& l, const std::string& message, const Parameter& p, const Strides& strides,
                const Image& image, int64_t box_columns) {
  const int64_t batch = BatchOf(l, message + ".batch_size", p.batch_size());
  l.Check(p.coord_num() == 4, message + ".coord_num", StrCat(message, ".coord_num must be 4, found ", p.coord_num()));
  const int anchors = strides.size();
  l.Check(p.field_h_size() == anchors && p.field_w_size() == anchors, message,
          StrCat(message, ": field_h and field_w must be given as often as the strides, ", anchors, " times, found ",
                 p.field_h_size(), " and ", p.field_w_size()));
  std::vector<TensorType> types = {Floats(Shape{batch, 3, image.height, image.width})};
  for (const double stride : SidesOf(l, message, strides)) {
    const auto cells = [&](int64_t pixels) {
      return std::max<int64_t>(1, static_cast<int64_t>(std::round(static_cast<double>(pixels) / stride)));
    };
    types.push_back(Floats(Shape{batch, 6, cells(image.height), cells(image.width)}));
  }
  if (p.output_gt_boxes()) types.push_back(Floats(Boxes(batch, box_columns)));
  l.Check(static_cast<size_t>(l.top_count()) == types.size(), "top",
          StrCat("there must be ", types.size(), " tops: the image, the labels of ", anchors, " anchors",
                 p.output_gt_boxes() ? " and the boxes" : "", "; found ", l.top_count()));
  l.AddData(types);
}

void BuildImageGt(LayerBuilder& l) {
  const ImageGtDataParameter& p = l.param().image_gt_data_param();
  const bool is_cropped = p.crop_width() > 0 && p.crop_height() > 0;
  const Image image = is_cropped ? Image{p.crop_height(), p.crop_width()} : Image{p.resize_height(), p.resize_width()};
  CheckImage(l, "image_gt_data_param", image, "resize_width and resize_height, or crop_width and crop_height");
  FeedLabels(l, "image_gt_data_param", p, p.downsample_rate(), image, 7);
}

void BuildDetection(LayerBuilder& l) {
  const DetectionDataParameter& p = l.param().detection_data_param();
  Image image{p.resize_height(), p.resize_width()};
  if (p.has_short_size() && p.has_long_size()) image = {p.long_size(), p.short_size()};
  if (p.crop_width() > 0 && p.crop_height() > 0) image = {p.crop_height(), p.crop_width()};
  if (p.has_crop_short_size() && p.has_crop_long_size()) image = {p.crop_long_size(), p.crop_short_size()};
  CheckImage(l, "detection_data_param", image,
             "resize_width and resize_height, short_size and long_size, or the crop's");
  FeedLabels(l, "detection_data_param", p, p.stride(), image, 8);
}

void BuildEval(LayerBuilder& l) {
  const EvalDataParameter& p = l.param().eval_data_param();
  const int64_t batch = BatchOf(l, "eval_data_param.batch_size", p.batch_size());
  const bool is_resized = p.has_resize_width() && p.has_resize_height();
  l.Check(is_resized || batch == 1, "eval_data_param.batch_size",
          StrCat("eval_data_param.batch_size must be 1 without resize_width and resize_height, found ", batch));
  const Image image = is_resized ? Image{p.resize_height(), p.resize_width()} : Image{p.long_size(), p.short_size()};
  CheckImage(l, "eval_data_param", image, "resize_width and resize_height, or short_size and long_size");
  std::vector<TensorType> types = {Floats(Shape{batch, 3, image.height, image.width}), Floats(Boxes(batch, 8)),
                                   Floats(Shape{batch, 2, 1, 1})};
  types.resize(static_cast<size_t>(l.top_count()));
  l.AddData(types);
}

void BuildRoi(LayerBuilder& l) {
  l.AddData({Floats(Shape{1, 3, 600, 1000}), Floats(Shape{1, 3, 1, 1}), Floats(Boxes(1, 5))});
}

}  // namespace

LayerDef ImageGtDataLayer() {
  return {.type = "ImageGtData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildImageGt,
          .traits = {.drawn_as = DrawnAs::kData},
          .params = {"image_gt_data_param"}};
}

LayerDef DetectionDataLayer() {
  return {.type = "DetectionData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = -1,
          .build = BuildDetection,
          .traits = {.drawn_as = DrawnAs::kData},
          .params = {"detection_data_param"}};
}

LayerDef EvalDataLayer() {
  return {.type = "EvalData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .max_tops = 3,
          .build = BuildEval,
          .traits = {.drawn_as = DrawnAs::kData},
          .params = {"eval_data_param"}};
}

LayerDef FrcnnRoiDataLayer() {
  return {.type = "FrcnnRoiData",
          .min_bottoms = 0,
          .max_bottoms = 0,
          .min_tops = 3,
          .max_tops = 3,
          .build = BuildRoi,
          .traits = {.drawn_as = DrawnAs::kData},
          .params = {"window_data_param"}};
}

}  // namespace moka
