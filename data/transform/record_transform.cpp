// One window is drawn for the picture; masks and instances are cut at the centres of the result's pixels, boxes and
// points by the same map.
#include "data/transform/record_transform.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "data/image/cut.h"
#include "data/image/picture_limits.h"
#include "data/layer_fields.h"
#include "data/transform/canvas.h"
#include "proto/text/places.h"

namespace moka {
namespace {

void CheckRecordTransformFields(const LayerParameter& layer) {
  constexpr std::array<std::string_view, 12> kRead = {
      "scale",  "mirror", "crop_size", "mean_value",   "force_color",       "force_gray",
      "crop_h", "crop_w", "std_value", "resize_short", "rand_resized_crop", "augment"};
  CheckTransformFields(layer, kRead);
  const auto fail = [&](std::string_view field, std::string_view text) {
    throw ErrorAt(layer, field, StrCat("layer \"", layer.name(), "\": ", field, " ", text));
  };
  const RecordDataParameter& p = layer.record_data_param();
  const std::string expected = StrCat(", expected both none or both 1..", kMostPictureSide, ", at most ",
                                      kMostPicturePixels, " pixels together");
  const auto is_size = [](int64_t height, int64_t width) {
    return (height == 0 && width == 0) || IsPictureSize(height, width);
  };
  if (!is_size(p.height(), p.width())) {
    fail("record_data_param.height", StrCat("and width are ", p.height(), " and ", p.width(), expected));
  }
  if (p.height() > 0 && layer.transform_param().resize_short() > 0) {
    fail("transform_param.resize_short", "does not go with record_data_param.height and width; keep one");
  }
  if (!is_size(p.canvas_height(), p.canvas_width())) {
    fail("record_data_param.canvas_height",
         StrCat("and canvas_width are ", p.canvas_height(), " and ", p.canvas_width(), expected));
  }
  const TransformationParameter& t = layer.transform_param();
  if (p.canvas_height() > 0 &&
      (p.height() > 0 || t.crop_size() > 0 || t.crop_h() > 0 || t.crop_w() > 0 || t.has_rand_resized_crop())) {
    fail("record_data_param.canvas_height",
         "holds whole pictures as they are; it does not go with a crop or with height and width");
  }
  if (!(p.min_visible() >= 0 && p.min_visible() <= 1)) {
    fail("record_data_param.min_visible", StrCat("is ", p.min_visible(), ", expected 0..1"));
  }
  if (p.ignore_label() > 255) fail("record_data_param.ignore_label", StrCat("is ", p.ignore_label(), ", at most 255"));
}

// The pixels under the centres of the result's. Requires: 1 channel.
void CutNearest(const ResamplePart& part, bool mirror, Image& image, Image& scratch) {
  const auto pixel = [](double at, int64_t side) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, side - 1);
  };
  const double step_x = part.box.width / static_cast<double>(part.width);
  const double step_y = part.box.height / static_cast<double>(part.height);
  scratch.Resize(part.width, part.height, 1);
  size_t to = 0;
  for (int64_t y = 0; y < part.height; ++y) {
    const int64_t row = pixel(part.box.y + (static_cast<double>(y) + 0.5) * step_y, image.height) * image.width;
    for (int64_t i = 0; i < part.width; ++i, ++to) {
      const int64_t x = mirror ? part.width - 1 - i : i;
      const int64_t column = pixel(part.box.x + (static_cast<double>(x) + 0.5) * step_x, image.width);
      scratch.pixels[to] = image.pixels[static_cast<size_t>(row + column)];
    }
  }
  std::swap(image, scratch);
}

}  // namespace

RecordTransform::RecordTransform(const LayerParameter& layer, Phase phase, uint64_t seed, Wanted wanted)
    : transform_((CheckRecordTransformFields(layer), layer.transform_param()), phase, seed, {}),
      param_(layer.record_data_param()),
      wanted_(std::move(wanted)) {}

ImageSize RecordTransform::Open(const SampleRecord& record, ImageDecoder& decoder) const {
  if (record.height() > 0) {
    return {ChannelCount(transform_.channels(), record.channels()), record.height(), record.width()};
  }
  return decoder.Open(record.picture(), {.channels = transform_.channels()});
}

Shape RecordTransform::OutputShape(const RecordPictureScratch& scratch, ImageDecoder& decoder) const {
  return ShapeOf(Open(scratch.record, decoder));
}

Shape RecordTransform::ShapeOf(const ImageSize& size) const {
  if (HasCanvas()) {
    transform_.CheckChannels(size);
    return {size.channels, param_.canvas_height(), param_.canvas_width()};
  }
  if (param_.height() > 0) return transform_.OutputShape({size.channels, param_.height(), param_.width()});
  return transform_.OutputShape(size);
}

ResamplePart RecordTransform::PartOf(const ImageSize& size, const SampleId& id) const {
  ImageSize resized = size;
  if (param_.height() > 0) resized = {size.channels, param_.height(), param_.width()};
  ResamplePart part = transform_.PartOf(resized, id).value();  // there is no padding and no mean image
  const double x = static_cast<double>(size.width) / static_cast<double>(resized.width);
  const double y = static_cast<double>(size.height) / static_cast<double>(resized.height);
  part.box = {part.box.x * x, part.box.y * y, part.box.width * x, part.box.height * y};
  if (param_.height() > 0) part.limits = BoxOf({0, 0, size.width, size.height});
  return HasCanvas() ? FittedTo(part, param_.canvas_height(), param_.canvas_width()) : part;
}

void RecordTransform::CutMasks(const ImageSize& size, const ResamplePart& part, bool mirror, ImageDecoder& decoder,
                               RecordPictureScratch& scratch) const {
  if (wanted_.mask) {
    DecodeMask(scratch.record, size, decoder, scratch.mask);
    CutNearest(part, mirror, scratch.mask, scratch.other);
  }
  if (wanted_.instances) {
    DrawInstances(scratch.record, size.height, size.width, scratch.instances);
    CutNearest(part, mirror, scratch.instances.low, scratch.other);
    CutNearest(part, mirror, scratch.instances.high, scratch.other);
  }
}

ImageBox RecordTransform::Extend(const ResamplePart& part, bool mirror, RecordPictureScratch& scratch) const {
  if (!HasCanvas()) return part.box;
  const int64_t height = param_.canvas_height();
  const int64_t width = param_.canvas_width();
  const auto extend = [&](Image& image, uint8_t beyond) {
    CutPicture(ViewOf(image), {.window = {0, 0, width, height}, .beyond = {beyond, beyond, beyond}}, scratch.other);
    std::swap(image, scratch.other);
  };
  extend(scratch.picture, 0);
  if (wanted_.mask) extend(scratch.mask, static_cast<uint8_t>(param_.ignore_label()));
  if (wanted_.instances) {
    extend(scratch.instances.low, 0);
    extend(scratch.instances.high, 0);
  }
  // In the picture's pixels; a mirrored picture lies at the canvas's left edge, too.
  const double whole_width = part.box.width * static_cast<double>(width) / static_cast<double>(part.width);
  const double whole_height = part.box.height * static_cast<double>(height) / static_cast<double>(part.height);
  return {mirror ? part.box.width - whole_width : 0, 0, whole_width, whole_height};
}

void RecordTransform::CutBoxes(std::vector<Annotated>& boxes) const {
  constexpr NormalBox kPicture{0, 0, 1, 1};
  std::erase_if(boxes, [&](Annotated& a) {
    if (!(Coverage(a.box, kPicture) >= param_.min_visible())) return true;
    a.box = {std::clamp(a.box.xmin, 0.0F, 1.0F), std::clamp(a.box.ymin, 0.0F, 1.0F), std::clamp(a.box.xmax, 0.0F, 1.0F),
             std::clamp(a.box.ymax, 0.0F, 1.0F)};
    return !(a.box.Area() > 0);
  });
}

void RecordTransform::PlacePoints(const google::protobuf::RepeatedPtrField<SamplePoint>& points,
                                  const CutPlaces& places, std::vector<KeyPoint>& out) const {
  for (int i = 0; i < static_cast<int>(wanted_.mirrored_points.size()); ++i) {
    if (points.empty()) {
      out.push_back({.is_visible = false});
      continue;
    }
    const SamplePoint& p = points[places.mirror ? wanted_.mirrored_points[static_cast<size_t>(i)] : i];
    KeyPoint point{places.X(p.x()), places.Y(p.y()), p.visible(), !p.visible() && p.hidden()};
    if (!point.IsInside()) point.Leave();
    out.push_back(point);
  }
}

void RecordTransform::PlaceFollowers(const ImageSize& size, const ImageBox& cut, bool mirror,
                                     RecordPictureScratch& scratch) const {
  const CutPlaces places{cut, mirror, static_cast<double>(size.width), static_cast<double>(size.height)};
  scratch.boxes.clear();
  scratch.points.clear();
  for (int i = 0; i < scratch.record.box_size(); ++i) {
    const SampleBox& b = scratch.record.box(i);
    if (wanted_.are_points_of_boxes) PlacePoints(b.point(), places, scratch.points);
    if ((b.difficult() && !param_.keep_difficult()) || (b.crowd() && !param_.keep_crowd())) continue;
    NormalBox box{places.X(b.xmin()), places.Y(b.ymin()), places.X(b.xmax()), places.Y(b.ymax())};
    if (mirror) std::swap(box.xmin, box.xmax);
    scratch.boxes.push_back({box, b.label(), i + 1, b.difficult()});
  }
  CutBoxes(scratch.boxes);
  if (!wanted_.are_points_of_boxes) PlacePoints(scratch.record.point(), places, scratch.points);
}

void RecordTransform::TightenBoxes(RecordPictureScratch& scratch) {
  std::vector<ImageWindow>& bounds = scratch.bounds;
  bounds.assign(static_cast<size_t>(scratch.record.box_size()) + 1, {});
  const int64_t width = scratch.picture.width;
  const int64_t height = scratch.picture.height;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      ImageWindow& w = bounds[scratch.instances.At(static_cast<size_t>(y * width + x))];
      if (w.height == 0) w = {x, y, 0, 0};
      const int64_t right = std::max(w.x + w.width, x + 1);
      w.x = std::min(w.x, x);
      w.width = right - w.x;
      w.height = y + 1 - w.y;
    }
  }
  std::erase_if(scratch.boxes, [&](Annotated& a) {
    if (scratch.record.box(a.instance_id - 1).run().empty()) return false;
    const ImageWindow& w = bounds[static_cast<size_t>(a.instance_id)];
    const auto part = [](int64_t pixels, int64_t of) { return static_cast<float>(pixels) / static_cast<float>(of); };
    a.box = {part(w.x, width), part(w.y, height), part(w.x + w.width, width), part(w.y + w.height, height)};
    return w.height == 0;
  });
}

void RecordTransform::Change(const SampleId& id, AugmentScratch& augment, RecordPictureScratch& scratch) const {
  std::array<FollowingMask, 3> masks;
  size_t count = 0;
  if (wanted_.mask) masks.at(count++) = {&scratch.mask, static_cast<uint8_t>(param_.ignore_label())};
  if (wanted_.instances) {
    masks.at(count++) = {&scratch.instances.low, 0};
    masks.at(count++) = {&scratch.instances.high, 0};
  }
  transform_.augmenter().Change(id, scratch.picture,
                                {.masks = std::span(masks).first(count),
                                 .boxes = &scratch.boxes,
                                 .cut_boxes = [&] { CutBoxes(scratch.boxes); },
                                 .points = &scratch.points},
                                augment);
}

void RecordTransform::Apply(const SampleId& id, const Shape& shape, ImageDecoder& decoder, StageClock& clock,
                            TransformScratch& transform, RecordPictureScratch& scratch, std::span<float> data) const {
  const SampleRecord& record = scratch.record;
  const ImageSize size = Open(record, decoder);
  // Before the part is cut: a crop may fit the first record and not this one.
  CheckSampleShape(ShapeOf(size), shape, "record_data_param.height and width, a canvas, or a crop");
  const ResamplePart part = PartOf(size, id);
  const bool mirror = transform_.mirrors(id);
  if (record.height() > 0) {
    clock.Enter(Stage::kTransform);
    PixelView pixels = PictureOf(record).pixels;
    ConvertPixels(transform_.channels(), scratch.other, pixels);
    ResampleToImage(pixels, part, transform.resample, scratch.picture);
  } else {
    const DecodedPart decoded = DecodePart(part, decoder);
    clock.Enter(Stage::kTransform);
    ResampleToImage(ViewOf(*decoded.image), decoded.part, transform.resample, scratch.picture);
  }
  if (mirror) {
    CutPicture(ViewOf(scratch.picture), {.window = {0, 0, part.width, part.height}, .mirror = true}, scratch.other);
    std::swap(scratch.picture, scratch.other);
  }
  CutMasks(size, part, mirror, decoder, scratch);

  PlaceFollowers(size, Extend(part, mirror, scratch), mirror, scratch);
  Change(id, transform.augment, scratch);
  if (wanted_.instances) TightenBoxes(scratch);
  transform_.Normalize(scratch.picture, data);
  transform_.augmenter().Erase(id, shape, data);
}

}  // namespace moka
