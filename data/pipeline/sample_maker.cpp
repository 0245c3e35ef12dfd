// The makers of the classic layers: a record's pixels through transform_param, its label or its boxes beside them.
#include "data/pipeline/sample_maker.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr int64_t kListPlaces = 300;  // of boxes in YOLO's lists

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
  constexpr std::string_view kSizeFields =
      "transform_param.crop_size, a list's new_height and new_width, or import with a size";
  Record read = source_->Read(record, scratch.record);
  scratch.record.clock.Enter(Stage::kDecode);
  if (!read.file.empty() && transform_.takes_parts()) {
    const ImageSize size = scratch.record.decoder.Open(read.file, {.channels = source_->channels()});
    CheckSampleShape(transform_.OutputShape(size), shape, kSizeFields);
    transform_.ApplyOpened(size, scratch.record.decoder, id, scratch.record.clock, scratch.transform, data);
  } else {
    const bool is_file = !read.file.empty();
    DecodeRecord(source_->channels(), scratch.record, read);
    if (is_file) source_->Keep(record, scratch.record.image, read.label);
    scratch.record.clock.Enter(Stage::kTransform);
    CheckSampleShape(transform_.OutputShape(read.pixels), shape, kSizeFields);
    transform_.Apply(read.pixels, id, scratch.transform, data);
  }
  if (read.labels.empty()) {
    label[0] = read.label;
  } else {
    std::ranges::copy(read.labels, label.begin());
  }
}

AnnotatedMaker::AnnotatedMaker(std::unique_ptr<const LmdbReader> reader, BoxTransform transform, BoxLabels labels)
    : reader_(std::move(reader)), transform_(std::move(transform)), labels_(std::move(labels)) {
  AnnotatedRecord record;
  const int64_t most = reader_->MostOf([&](std::string_view value) {
    ParseAnnotated(value, record);
    return static_cast<int64_t>(record.annotations.size());
  });
  rows_ = std::max(rows_, most);
}

void AnnotatedMaker::Load(int64_t record, SampleScratch& scratch) const {
  const std::string_view value = reader_->value(record);
  scratch.record.clock.Enter(Stage::kDecode);
  ParseAnnotated(value, scratch.annotated);
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
  scratch.record.clock.Enter(Stage::kTransform);
  CheckSampleShape(transform_.OutputShape(scratch.boxes.image), shape, "transform_param.resize_param");
  transform_.Apply(id, scratch.boxes, data);
  const auto numbers = static_cast<size_t>(labels_.are_lists ? kListPlaces * 5 : rows_ * 8);
  if (labels_.are_lists) {
    WriteList(scratch.boxes.annotations, label.first(numbers));
  } else {
    WriteRows(scratch.boxes.annotations, item, label.first(numbers));
  }
  if (!labels_.picture) return;
  labels_.picture->Write(scratch.annotated.datum, scratch.boxes, labels_.picture->SampleShape(shape), scratch.record,
                         label.subspan(numbers));
}

std::vector<Shape> AnnotatedMaker::LabelShapes(int64_t batch_size, const Shape& sample) const {
  std::vector<Shape> shapes;
  shapes.push_back(labels_.are_lists ? Shape{batch_size, 1, kListPlaces, 5} : Shape{1, 1, batch_size * rows_, 8});
  if (labels_.picture) shapes.push_back(labels_.picture->SampleShape(sample).Inserted(0, batch_size));
  return shapes;
}

void AnnotatedMaker::WriteList(const std::vector<Annotated>& boxes, std::span<float> label) const {
  std::ranges::fill(label, 0.0F);
  size_t place = 0;
  for (const Annotated& a : boxes) {
    if ((a.difficult && !labels_.has_difficult) || place + 5 > label.size()) continue;
    const float values[] = {static_cast<float>(a.group_label - 1), (a.box.xmin + a.box.xmax) / 2,
                            (a.box.ymin + a.box.ymax) / 2, a.box.xmax - a.box.xmin, a.box.ymax - a.box.ymin};
    std::ranges::copy(values, label.begin() + static_cast<ptrdiff_t>(place));
    place += 5;
  }
}

void AnnotatedMaker::WriteRows(const std::vector<Annotated>& boxes, int64_t item, std::span<float> label) const {
  std::ranges::fill(label, -1.0F);
  float* row = label.data();
  for (const Annotated& a : boxes) {
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
