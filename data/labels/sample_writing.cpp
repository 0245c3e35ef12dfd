// Masks are PNG files of one channel inside the record; resizing takes the nearest pixel, as classes cannot be mixed.
#include "data/labels/sample_writing.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "data/image/image_formats.h"
#include "data/labels/run_lengths.h"
#include "data/records/sample_record.h"

namespace moka {

SampleSchema NewSchema() {
  SampleSchema schema;
  schema.set_version(kSampleVersion);
  return schema;
}

SampleBox* AddBox(const PictureSize& size, const PixelBox& box, int32_t label, std::string_view name,
                  SampleRecord& record, RecordWarnings& warnings) {
  if (label < 1) throw Error(ErrorKind::kBadData, StrCat(name, " has class ", label, ", expected one from 1"));
  const auto part = [](double at, int64_t side) {
    return static_cast<float>(std::clamp(at / static_cast<double>(side), 0.0, 1.0));
  };
  const float xmin = part(box.xmin, size.width);
  const float ymin = part(box.ymin, size.height);
  const float xmax = part(box.xmax, size.width);
  const float ymax = part(box.ymax, size.height);
  if (xmin >= xmax || ymin >= ymax) {
    warnings.push_back({StrCat(name, " has no area in the picture: it is left out"), RecordWarning::Kind::kBox});
    return nullptr;
  }
  SampleBox* const made = record.add_box();
  made->set_label(label);
  made->set_xmin(xmin);
  made->set_ymin(ymin);
  made->set_xmax(xmax);
  made->set_ymax(ymax);
  return made;
}

void AddBoxes(const AnnotatedObjects& found, SampleRecord& record, RecordWarnings& warnings) {
  for (const AnnotatedObject& object : found.objects) {
    const std::string name = StrCat("the box ", object.box.ToText());
    SampleBox* const box = AddBox(found.size, object.box, object.label, name, record, warnings);
    if (box != nullptr && object.is_difficult) box->set_difficult(true);
  }
}

ValueMask ReadValueMask(std::string_view file) {
  const ImageHeader header = ReadImageHeader(file);
  if (header.format != ImageHeader::Format::kPng) throw Error(ErrorKind::kBadData, "a mask must be a PNG");
  constexpr int64_t kMostPixels = int64_t{1} << 26U;
  if (header.width > kMostPixels / header.height) {
    throw Error(ErrorKind::kBadData, StrCat("the mask claims ", header.width, "x", header.height, " pixels"));
  }
  if (const int orientation = ExifOrientation(file); orientation != 1) {
    throw Error(ErrorKind::kBadData, {}, StrCat("the mask is turned by its EXIF orientation ", orientation),
                "save it upright, without the tag");
  }
  ValueMask mask{header.width, header.height, {}};
  DecodePngSamples(file, header, mask.values);
  return mask;
}

ValueMask ReadValueMask(std::string_view file, const Image& picture) {
  ValueMask mask = ReadValueMask(file);
  if (mask.width == picture.width && mask.height == picture.height) return mask;
  throw Error(ErrorKind::kBadData, StrCat("the mask is ", mask.width, " x ", mask.height, " and the picture ",
                                          picture.width, " x ", picture.height));
}

std::string MaskFile(std::string file, const Image& picture, MaskValues* values) {
  const ValueMask mask = ReadValueMask(file, picture);
  const auto most = std::max_element(mask.values.begin(), mask.values.end());
  if (*most > UINT8_MAX) throw Error(ErrorKind::kBadData, StrCat("the mask has class ", *most, ", at most 255 can be"));
  for (size_t i = 0; values != nullptr && i < mask.values.size(); ++i) values->set(mask.values[i]);
  if (IsGrayBytePng(file)) return file;
  Image gray;
  gray.Resize(mask.width, mask.height, 1);
  std::transform(mask.values.begin(), mask.values.end(), gray.pixels.begin(),
                 [](uint16_t value) { return static_cast<uint8_t>(value); });
  return EncodePng(gray);
}

void ResizeMasks(const PictureSize& from, const PictureSize& to, SampleRecord& record) {
  if (from.width == to.width && from.height == to.height) return;
  Image resized;
  if (record.has_mask()) {
    Image mask;
    ImageDecoder().Decode(record.mask(), {.orientation = DecodeOptions::Orientation::kAsStored}, mask);
    ResizeImage(mask, to.width, to.height, Interpolation::kNearest, resized);
    record.set_mask(EncodePng(resized));
  }
  for (SampleBox& box : *record.mutable_box()) {
    if (box.run_size() == 0) continue;
    const std::vector<uint32_t> runs(box.run().begin(), box.run().end());
    ResizeImage(MaskOf(runs, from.width, from.height), to.width, to.height, Interpolation::kNearest, resized);
    const RunLengths made = RunLengthsOf(resized);
    box.mutable_run()->Assign(made.begin(), made.end());
  }
}

}  // namespace moka
