// Cuts by the window that the image got and takes the nearest pixel; each class then has a plane of zeros and ones.
#include "data/transform/label_picture.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "proto/text/text_format.h"

namespace moka {
namespace {

constexpr uint8_t kLeast = 100;  // of a pixel of the one class, after resizing: it must be above

Error Fault(std::string_view field, const std::string& text) {
  return {ErrorKind::kConfig, StrCat("annotated_data_param.", field, ": ", text)};
}

// The part of a picture that a window covers, of `width` x `height`.
void CutAndResize(const Image& from, const NormalBox& window, int64_t width, int64_t height, Image& to) {
  const ImageWindow cut = PixelsOf(window, from.width, from.height);
  if (cut.width < 1 || cut.height < 1) {
    throw Error(ErrorKind::kBadData, StrCat("its label image of ", from.height, "x", from.width, " is too small"));
  }
  ResizeWindow(from, cut, width, height, Interpolation::kArea, to);
}

}  // namespace

LabelPicture::LabelPicture(const AnnotatedDataParameter& param, const std::filesystem::path& base_folder)
    : is_single_(param.single_class()), scale_(param.seg_scales()) {
  if (scale_ < 1) throw Fault("seg_scales", StrCat("must be at least 1, found ", scale_));
  if (param.seg_resize_height() > 0 && param.seg_resize_width() > 0) {
    height_ = param.seg_resize_height();
    width_ = param.seg_resize_width();
  }
  if (is_single_) return;
  const std::filesystem::path path = base_folder / param.label_map_file();
  LabelMap map;
  ParseText(ReadTextFile(path, "a label map"), path.string(), map);
  for (int i = 0; i < map.item_size() && i < 256; ++i) {
    class_of_[static_cast<size_t>(i)] = map.item(i).label_id();
    classes_ = std::max(classes_, int64_t{map.item(i).label_id()});
  }
  constexpr int64_t kMostClasses = 256;
  if (classes_ > kMostClasses || std::ranges::all_of(class_of_, [](int64_t c) { return c <= 0; })) {
    throw Fault("label_map_file", StrCat(path.string(), " must give label_ids from 1 to ", kMostClasses));
  }
}

Shape LabelPicture::SampleShape(const Shape& image) const {
  if (height_ > 0) return {classes_, height_, width_};
  const Shape shape{classes_, image[1] / scale_, image[2] / scale_};
  if (shape.Count() > 0) return shape;
  throw Fault("seg_scales", StrCat(scale_, " leaves nothing of an image ", image.ToString()));
}

void LabelPicture::Write(std::string_view datum, const BoxScratch& boxes, const Shape& shape, RecordScratch& scratch,
                         std::span<float> out) const {
  const std::string_view file = SegLabelOf(datum);
  if (file.empty()) throw Error(ErrorKind::kBadData, "it has no label image (datum.seg_label)");
  Image& gray = scratch.image;
  Image& resized = scratch.resized;
  DecodeOptions options;
  options.channels = ImageChannels::kGray;
  scratch.decoder.Decode(file, options, gray);
  const int64_t plane = shape[1] * shape[2];
  const auto write = [&](int64_t c, auto&& value) {
    for (int64_t i = 0; i < plane; ++i) {
      const int64_t column = i % shape[2];
      const int64_t to = boxes.is_mirrored ? i - column + shape[2] - 1 - column : i;
      out[static_cast<size_t>(c * plane + to)] = value(resized.pixels[static_cast<size_t>(i)]);
    }
  };
  if (is_single_) {
    CutAndResize(gray, boxes.window, shape[2], shape[1], resized);
    return write(0, [](uint8_t pixel) { return pixel > kLeast ? 1.0F : 0.0F; });
  }
  Image mask;
  mask.Resize(gray.width, gray.height, 1);
  for (int64_t c = 0; c < classes_; ++c) {
    std::ranges::transform(gray.pixels, mask.pixels.begin(),
                           [&](uint8_t pixel) -> uint8_t { return class_of_[pixel] == c + 1 ? 255 : 0; });
    CutAndResize(mask, boxes.window, shape[2], shape[1], resized);
    write(c, [](uint8_t pixel) { return static_cast<float>(pixel) / 255; });
  }
}

}  // namespace moka
