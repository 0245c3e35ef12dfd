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

constexpr const char* kLabels =
    "A label's row at column c and row r of a map is (class, x, y, w, h, overlap): the object (centre and sides in "
    "pixels) that the anchor of field_w x field_h pixels around ((c + 0.5) s, (r + 0.5) s) overlaps most, s being the "
    "map's stride; class 0 where the overlap is below fg_threshold.";

}  // namespace

LayerDef ImageGtDataLayer() {
  return {
      .type = "ImageGtData",
      .doc =
          "MS-CNN's training data, fed by the caller: images [batch_size,3,H,W], H and W those of the crop or of the "
          "resize; for each downsample_rate s (with its field_h and field_w) labels [batch_size,6,round(H/s),"
          "round(W/s)]; with output_gt_boxes boxes [64*batch_size,7,1,1] (image, x1, y1, x2, y2, class, ignored), rows "
          "that are left -1. The other fields and transform_param tell how to make them and are not used.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = -1,
      .build = BuildImageGt,
      .page = {.params = {"image_gt_data_param"},
               .formula = kLabels,
               .gradient = "None: the tops come from outside.",
               .source = "Cai et al., \"A Unified Multi-scale Deep Convolutional Neural Network for Fast Object "
                         "Detection\", 2016, arXiv 1607.07155; mscnn's image_gt_data_layer, whose boxes have a row an "
                         "object. Its window file is not read.",
               .example = R"(layer {
  name: "data"
  type: "ImageGtData"
  top: "data"
  top: "label_8"
  top: "label_16"
  top: "boxes"
  image_gt_data_param {
    source: "windows.txt" batch_size: 2 resize_width: 96 resize_height: 64 crop_width: 64 crop_height: 48
    downsample_rate: 8 downsample_rate: 16 field_w: 16 field_w: 32 field_h: 16 field_h: 32 output_gt_boxes: true
  }
})"}};
}

LayerDef DetectionDataLayer() {
  return {
      .type = "DetectionData",
      .doc =
          "Cascade R-CNN's training data, fed by the caller: images [batch_size,3,H,W], H and W those of resize_height "
          "and resize_width, or long_size and short_size, or of the crop; for each stride s (with its field_h and "
          "field_w) labels [batch_size,6,round(H/s),round(W/s)]; with output_gt_boxes boxes [64*batch_size,8,1,1] "
          "(image, x1, y1, x2, y2, class, ignored, difficult), rows that are left -1. The other fields and "
          "transform_param tell how to make them and are not used.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = -1,
      .build = BuildDetection,
      .page = {.params = {"detection_data_param"},
               .formula = kLabels,
               .gradient = "None: the tops come from outside.",
               .source = "Cai and Vasconcelos, \"Cascade R-CNN\", 2018, arXiv 1712.00726; cascade-rcnn's "
                         "detection_data_layer. With short_size and long_size its images change in size from batch to "
                         "batch; here they have the size its layer is set up with. Its window file is not read.",
               .example = R"(layer {
  name: "data"
  type: "DetectionData"
  top: "data"
  top: "label_small"
  top: "label_large"
  top: "boxes"
  detection_data_param {
    source: "windows.txt" batch_size: 1 short_size: 64 long_size: 96
    stride: 16 stride: 16 field_w: 32 field_w: 64 field_h: 32 field_h: 64 output_gt_boxes: true
  }
})"}};
}

LayerDef EvalDataLayer() {
  return {
      .type = "EvalData",
      .doc =
          "Cascade R-CNN's test data, fed by the caller: images [batch_size,3,H,W], H and W those of resize_height and "
          "resize_width, or long_size and short_size; optionally boxes [64*batch_size,8,1,1] (image, x1, y1, x2, y2, "
          "class, ignored, difficult), rows that are left -1, and the images' heights and widths [batch_size,2,1,1].",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .max_tops = 3,
      .build = BuildEval,
      .page = {.params = {"eval_data_param"},
               .formula = "The tops are the caller's.",
               .gradient = "None: the tops come from outside.",
               .source = "Cai and Vasconcelos, \"Cascade R-CNN\", 2018, arXiv 1712.00726; cascade-rcnn's "
                         "eval_data_layer. With short_size and long_size its images differ in size; here they have the "
                         "size its layer is set up with. Its window file is not read.",
               .example = R"(layer {
  name: "data"
  type: "EvalData"
  top: "data"
  top: "boxes"
  top: "sizes"
  eval_data_param { source: "windows.txt" batch_size: 1 short_size: 64 long_size: 96 }
})"}};
}

LayerDef FrcnnRoiDataLayer() {
  return {
      .type = "FrcnnRoiData",
      .doc =
          "The training data of makefile/frcnn's Faster R-CNN, fed by the caller: an image [1,3,600,1000], im_info "
          "[1,3,1,1] (height, width, scale) and gt_boxes [64,5,1,1] (x1, y1, x2, y2, class; class 0: padding). "
          "window_data_param tells how to make them and is not used.",
      .min_bottoms = 0,
      .max_bottoms = 0,
      .min_tops = 3,
      .max_tops = 3,
      .build = BuildRoi,
      .page = {.params = {"window_data_param"},
               .formula = "The tops are the caller's.",
               .gradient = "None: the tops come from outside.",
               .source = "makefile/frcnn's frcnn_roi_data_layer, whose image and boxes change in size; the shapes here "
                         "are those of scales 600 and max_size 1000 in its configuration. Its files are not read.",
               .example = R"(layer {
  name: "data"
  type: "FrcnnRoiData"
  top: "data"
  top: "im_info"
  top: "gt_boxes"
  window_data_param { source: "windows.txt" config: "voc_config.json" }
})"}};
}

}  // namespace moka
