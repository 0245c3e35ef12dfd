// Chooses the reader by the database's schema or its first record, and gives all kinds one view.
#include "data/records/record_database.h"

#include <bitset>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/records/class_names.h"
#include "data/records/datum_view.h"

namespace moka {

RecordDatabase::RecordDatabase(const std::filesystem::path& path, LmdbReader::Access access) : reader_(path, access) {
  if (HasSampleSchema(path)) {
    kind_ = RecordKind::kSample;
    schema_ = ReadSampleSchema(path);
    if (schema_.label_size() == 1) {
      label_names_.assign(schema_.label(0).class_name().begin(), schema_.label(0).class_name().end());
    }
    box_names_.assign(schema_.box_class().begin(), schema_.box_class().end());
    return;
  }
  if (size() > 0) kind_ = KindOf(reader_.unchecked_value(0));
  label_names_ = LabelNamesIn(path);
}

uint32_t RecordDatabase::Checksum() const {
  const std::vector<uint32_t>& sums = reader_.checksums();
  if (!sums.empty()) return Crc32c({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint32_t)});
  uint32_t crc = 0;
  for (int64_t i = 0; i < size(); ++i) crc = Crc32c(StrCat(reader_.key(i), "\t", reader_.value_bytes(i), "\n"), crc);
  return crc;
}

void RecordDatabase::LoadSample(int64_t i, Scratch& scratch, Content& content) const {
  SampleRecord& sample = scratch.sample;
  ParseSample(reader_.value(i), schema_, sample);
  Record record = PictureOf(sample);
  content.is_file = !record.file.empty();
  DecodeRecord(ImageChannels::kAsStored, scratch.record, record);
  content.pixels = record.pixels;
  if (sample.label_size() == 1) content.label = sample.label(0);
  for (const SampleBox& box : sample.box()) content.boxes.push_back(box.label());
  if (!sample.mask().empty()) {
    DecodeMask(sample, SizeOf(content.pixels), scratch.record.decoder, scratch.mask);
    if (schema_.mask_class_size() > 0) {
      std::bitset<256> values;
      for (const uint8_t value : scratch.mask.pixels) values.set(value);
      CheckMaskClasses(values, schema_.mask_class_size());
    }
  }
  if (schema_.box_masks()) DrawInstances(sample, content.pixels.height, content.pixels.width, scratch.instances);
}

RecordDatabase::Content RecordDatabase::Load(int64_t i, Scratch& scratch) const {
  Content content;
  if (kind_ == RecordKind::kSample) {
    LoadSample(i, scratch, content);
    return content;
  }
  std::string_view wire = reader_.value(i);
  if (kind_ == RecordKind::kAnnotated) {
    ParseAnnotated(wire, scratch.annotated);
    wire = scratch.annotated.datum;
    for (const Annotated& a : scratch.annotated.annotations) content.boxes.push_back(a.group_label);
  }
  const DatumView datum = ParseDatum(wire);
  content.is_file = datum.encoded;
  if (kind_ == RecordKind::kDatum) content.label = datum.label;
  content.pixels = LoadDatum(wire, ImageChannels::kAsStored, scratch.record).pixels;
  return content;
}

std::optional<int64_t> RecordDatabase::ClassOf(int64_t i, Scratch& scratch) const {
  if (kind_ == RecordKind::kDatum) return ParseDatum(reader_.unchecked_value(i)).label;
  if (kind_ == RecordKind::kAnnotated || schema_.label_size() != 1) return std::nullopt;
  ParseSample(reader_.unchecked_value(i), schema_, scratch.sample);
  return scratch.sample.label(0);
}

}  // namespace moka
