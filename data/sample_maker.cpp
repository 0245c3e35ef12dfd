#include "data/sample_maker.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

void CheckShape(const Shape& shape, const Shape& expected, std::string_view field) {
  if (shape == expected) return;
  throw Error(ErrorKind::kBadData, {},
              StrCat("its sample is ", shape.ToString(), ", the first record's was ", expected.ToString()),
              StrCat("all samples of a layer have one shape: set transform_param.", field));
}

// An 8-bit image of pixels that may lie planar in the record.
void CopyPixels(const PixelView& from, Image& to) {
  if (from.bytes == nullptr || (from.channels != 1 && from.channels != 3)) {
    throw Error(ErrorKind::kBadData, StrCat("an image with boxes needs bytes of 1 or 3 channels, found ",
                                            from.bytes == nullptr ? "floats of " : "", from.channels));
  }
  to.Resize(from.width, from.height, from.channels);
  const int64_t plane = from.height * from.width;
  const bool planar = from.order == PixelView::Order::kPlanar;
  for (int64_t i = 0; i < plane; ++i) {
    for (int64_t c = 0; c < from.channels; ++c) {
      to.pixels[static_cast<size_t>(i * from.channels + c)] =
          from.bytes[planar ? c * plane + i : i * from.channels + c];
    }
  }
}

}  // namespace

Shape LabelledMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  return transform_.OutputShape(source_->Load(record, scratch.record).pixels);
}

void LabelledMaker::Make(int64_t record, const SampleId& id, int64_t /*item*/, const Shape& shape,
                         SampleScratch& scratch, std::span<float> data, std::span<float> label) const {
  const Record loaded = source_->Load(record, scratch.record);
  CheckShape(transform_.OutputShape(loaded.pixels), shape, "crop_size, or import with a size");
  transform_.Apply(loaded.pixels, id, scratch.transform, data);
  if (loaded.labels.empty()) {
    label[0] = loaded.label;
  } else {
    std::ranges::copy(loaded.labels, label.begin());
  }
}

AnnotatedMaker::AnnotatedMaker(const std::filesystem::path& path, LmdbReader::Access access, BoxTransform transform)
    : reader_(path, access), transform_(std::move(transform)) {
  AnnotatedRecord record;
  for (int64_t i = 0; i < reader_.size(); ++i) {
    try {
      ParseAnnotated(reader_.value(i), record);
      rows_ = std::max(rows_, static_cast<int64_t>(record.annotations.size()));
    } catch (const Error&) {
      continue;  // reported, or skipped, when its turn comes
    }
  }
}

std::string AnnotatedMaker::NameOf(int64_t record) const {
  return StrCat("record \"", Printable(reader_.key(record)), "\" (index ", record, ") of ", reader_.path().string());
}

void AnnotatedMaker::Load(int64_t record, SampleScratch& scratch) const {
  ParseAnnotated(reader_.value(record), scratch.annotated);
  const Record loaded = LoadDatum(scratch.annotated.datum, transform_.channels(), scratch.record);
  CopyPixels(loaded.pixels, scratch.boxes.image);
  scratch.boxes.annotations = scratch.annotated.annotations;
}

Shape AnnotatedMaker::DataShape(int64_t record, SampleScratch& scratch) const {
  Load(record, scratch);
  return transform_.OutputShape(scratch.boxes.image);
}

void AnnotatedMaker::Make(int64_t record, const SampleId& id, int64_t item, const Shape& shape, SampleScratch& scratch,
                          std::span<float> data, std::span<float> label) const {
  Load(record, scratch);
  CheckShape(transform_.OutputShape(scratch.boxes.image), shape, "resize_param");
  transform_.Apply(id, scratch.boxes, data);
  std::ranges::fill(label, -1.0F);
  float* row = label.data();
  for (const Annotated& a : scratch.boxes.annotations) {
    const float values[] = {static_cast<float>(item),
                            static_cast<float>(a.group_label),
                            static_cast<float>(a.instance_id),
                            a.box.xmin,
                            a.box.ymin,
                            a.box.xmax,
                            a.box.ymax,
                            a.difficult ? 1.0F : 0.0F};
    row = std::ranges::copy(values, row).out;
  }
}

}  // namespace moka
