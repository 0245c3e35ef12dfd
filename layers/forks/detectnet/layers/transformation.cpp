// DetectNetTransformation (NVIDIA's Caffe): training images and their boxes are changed at random, together, and the
// boxes become a grid of coverage. What is drawn is a tensor of its own (a row an image), which the changes of colour,
// of place and of boxes all read. Of NVIDIA's two implementations, which differ in how they resample, this is the CPU's
// (OpenCV's cubic resize and bilinear rotation, one after the other).
#include "core/log.h"
#include "core/text.h"
#include "layers/net/fields.h"
#include "layers/net/layer.h"
#include "layers/net/random_stream.h"
#include "layers/shapes/shape_reader.h"
#include "proto/weights/weights.h"

namespace moka {
namespace {

// A row for each image, which only resizes it.
ValueId ResizeOnly(const LayerBuilder& l, int64_t pictures, int64_t height, int64_t width) {
  Doubles rows;
  for (int64_t n = 0; n < pictures; ++n) {
    const Doubles row = {0, 1, 0, static_cast<double>(width), static_cast<double>(height), 0, 0, 0};
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return l.b().Add1("table", {}, {{"shape", Ints{pictures, 8}}, {"values", std::move(rows)}});
}

ValueId Choices(LayerBuilder& l, const Shape& x, int64_t height, int64_t width) {
  const DetectNetAugmentationParameter& p = l.param().detectnet_augmentation_param();
  const auto number = [&](const char* field, float value) {
    return Finite(l, StrCat("detectnet_augmentation_param.", field), value);
  };
  return l.b().Add1("augment_choices", {l.RandomKey()},
                    {{"images", x[0]},
                     {"height", x[2]},
                     {"width", x[3]},
                     {"out_height", height},
                     {"out_width", width},
                     {"crop_prob", number("crop_prob", p.crop_prob())},
                     {"shift_x", int64_t{p.shift_x()}},
                     {"shift_y", int64_t{p.shift_y()}},
                     {"scale_prob", number("scale_prob", p.scale_prob())},
                     {"scale_min", number("scale_min", p.scale_min())},
                     {"scale_max", number("scale_max", p.scale_max())},
                     {"flip_prob", number("flip_prob", p.flip_prob())},
                     {"rotation_prob", number("rotation_prob", p.rotation_prob())},
                     {"max_rotate_degree", number("max_rotate_degree", p.max_rotate_degree())},
                     {"hue_rotation_prob", number("hue_rotation_prob", p.hue_rotation_prob())},
                     {"hue_rotation", number("hue_rotation", p.hue_rotation())},
                     {"desaturation_prob", number("desaturation_prob", p.desaturation_prob())},
                     {"desaturation_max", number("desaturation_max", p.desaturation_max())},
                     {"stream", static_cast<int64_t>(RandomStreamOf(l))}});
}

// The mean image, resized to the images' size.
ValueId MeanImage(const LayerBuilder& l, int64_t height, int64_t width) {
  NamedBlob mean;
  const std::string field = "transform_param.mean_file";
  try {
    mean = ReadBlobProtoFile(l.param().transform_param().mean_file());
  } catch (const Error& error) {
    l.Fail(field, error.text(), error.hint());
  }
  const Shape& shape = mean.shape;
  const int rank = shape.rank();
  l.Check(rank >= 3 && rank <= 4 && shape[rank - 3] == 3 && shape.Count() > 0, field,
          StrCat(field, " must hold an image of 3 channels, found ", shape.ToString()));
  const Shape image = {1, 3, shape[rank - 2], shape[rank - 1]};
  const ValueId values = l.b().Add1("table", {},
                                    {{"shape", Ints{image[0], image[1], image[2], image[3]}},
                                     {"values", Doubles(mean.values.begin(), mean.values.begin() + image.Count())}});
  if (image[2] == height && image[3] == width) return values;
  return l.b().Add1("augment_place", {values, ResizeOnly(l, 1, height, width)}, {{"height", height}, {"width", width}});
}

ValueId WithoutMean(const LayerBuilder& l, ValueId x, const Shape& shape) {
  const TransformationParameter& t = l.param().transform_param();
  if (t.has_scale() || t.has_mirror() || t.has_crop_size()) {
    LogWarning(StrCat("layer \"", Printable(l.param().name()),
                      "\": of transform_param only the mean is used; scale, mirror and crop_size do nothing here"));
  }
  if (t.has_mean_file()) return l.b().Pointwise("x0-x1", {x, MeanImage(l, shape[2], shape[3])});
  if (t.mean_value_size() == 0) return x;
  const std::string field = "transform_param.mean_value";
  l.Check(t.mean_value_size() == 1 || t.mean_value_size() == 3, field,
          StrCat(field, " must be given once or three times, found ", t.mean_value_size()));
  Doubles values;
  for (const float value : t.mean_value()) values.push_back(Finite(l, field, value));
  if (values.size() == 1) return Computed(l.b(), Term::Of(x) - Decimal(values[0]));
  const ValueId mean = l.b().Add1("table", {}, {{"shape", Ints{1, 3, 1, 1}}, {"values", std::move(values)}});
  return l.b().Pointwise("x0-x1", {x, mean});
}

Attributes Coverage(const LayerBuilder& l, const Shape& x) {
  const DetectNetGroundTruthParameter& p = l.param().detectnet_groundtruth_param();
  const bool is_least = p.gridbox_type() == DetectNetGroundTruthParameter::GRIDBOX_MIN;
  Ints classes;
  for (const auto& mapping : p.object_class()) {
    l.Check(mapping.has_src() && mapping.has_dst(), "detectnet_groundtruth_param.object_class",
            "detectnet_groundtruth_param.object_class must have both src and dst");
    classes.push_back(int64_t{mapping.src()});
    classes.push_back(int64_t{mapping.dst()});
  }
  if (classes.empty()) classes = {1, 0};  // KITTI's cars
  return {{"image_height", x[2]},
          {"image_width", x[3]},
          {"out_height", int64_t{p.image_size_y()}},
          {"out_width", int64_t{p.image_size_x()}},
          {"stride", int64_t{p.stride()}},
          {"classes", std::move(classes)},
          {"scale", Finite(l, "detectnet_groundtruth_param.scale_cvg", p.scale_cvg())},
          {"length", is_least ? int64_t{p.min_cvg_len()} : int64_t{p.max_cvg_len()}},
          {"length_is_least", is_least},
          {"norm", p.obj_norm()},
          {"crop", p.crop_bboxes()}};
}

void BuildTransformation(LayerBuilder& l) {
  const Shape x = l.shape(0);
  const Shape label = l.shape(1);
  l.Check(x.rank() == 4 && x[1] == 3, "bottom[0]",
          StrCat("bottom \"", l.param().bottom(0), "\" must be images [N,3,H,W], found ", x.ToString()));
  l.Check(label.rank() == 4 && label[0] == x[0] && label[1] == 1 && label[2] >= 1 && label[3] == 16, "bottom[1]",
          StrCat("bottom \"", l.param().bottom(1), "\" must be [", x[0],
                 ",1,objects+1,16], a row that counts the objects and one for each, found ", label.ToString()));
  const GraphBuilder& b = l.b();
  const DetectNetGroundTruthParameter& g = l.param().detectnet_groundtruth_param();
  const int64_t height = g.image_size_y();
  const int64_t width = g.image_size_x();
  l.Check(height >= 1 && width >= 1, "detectnet_groundtruth_param",
          StrCat("detectnet_groundtruth_param: image_size_x and image_size_y must be at least 1, found ", width,
                 " and ", height));
  const DetectNetAugmentationParameter& a = l.param().detectnet_augmentation_param();
  const bool is_random = l.phase() == TRAIN;
  const ValueId choices = is_random ? Choices(l, x, height, width) : ResizeOnly(l, x[0], height, width);
  const bool has_color = is_random && (a.hue_rotation_prob() > 0 || a.desaturation_prob() > 0);
  const ValueId colors = has_color ? b.Add1("augment_colour", {l.bottom(0), choices}) : l.bottom(0);
  const Attributes size{{"height", height}, {"width", width}};
  l.SetTop(0, b.Add1("augment_place", {WithoutMean(l, colors, x), choices}, size));
  l.SetTop(1, b.Add1("box_coverage", {l.bottom(1), choices}, Coverage(l, x)));
}

// The labels come from a database of their own: a row that counts and, as DIGITS writes them, 64 boxes of 16 numbers.
void NeedsOfTransformation(const ShapeReader& reader) {
  const Shape* x = reader.bottom(0);
  if (reader.has_failed() && x != nullptr && x->rank() > 0 && reader.bottom_count() > 1)
    reader.Require(1, {(*x)[0], 1, 65, 16});
}

}  // namespace

LayerDef DetectNetTransformationLayer() {
  return {.type = "DetectNetTransformation",
          .min_bottoms = 2,
          .max_bottoms = 2,
          .min_tops = 2,
          .max_tops = 2,
          .build = BuildTransformation,
          .needs = NeedsOfTransformation,
          .params = {"detectnet_groundtruth_param", "detectnet_augmentation_param", "transform_param"}};
}

}  // namespace moka
