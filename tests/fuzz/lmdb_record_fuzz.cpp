// Any bytes as a record: the Datum view must agree with protobuf's parser; then it is decoded and transformed, whole
// and in part.
#include <vector>

#include "data/records/datum_view.h"
#include "data/records/record_source.h"
#include "data/transform/transform.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

Transform MakeTransform() {
  TransformationParameter param;
  param.set_crop_size(5);
  param.set_pad(1);
  param.set_mirror(true);
  param.add_mean_value(3);
  return {param, TRAIN, 1, {}};
}

void CheckAgainstProtobuf(std::string_view wire) {
  Datum datum;
  const bool good = datum.ParseFromArray(wire.data(), static_cast<int>(wire.size()));
  bool same = !good;
  try {
    const DatumView view = ParseDatum(wire);
    same = good && view.label == datum.label() && view.channels == datum.channels() && view.data == datum.data() &&
           view.encoded == datum.encoded() && view.float_count == datum.float_data_size();
  } catch (const Error&) {
  }
  if (!same) std::abort();
}

Transform MakeResizing() {
  TransformationParameter param;
  param.set_crop_size(9);
  param.set_mirror(true);
  param.mutable_rand_resized_crop();
  return {param, TRAIN, 1, {}};
}

void TransformPart(std::string_view wire) {
  static RecordScratch scratch;
  static TransformScratch transform_scratch;
  static const Transform transform = MakeResizing();
  static std::vector<float> out;
  const Record record = ReadDatum(wire, scratch);
  const SampleId id{1, wire.size()};
  if (record.file.empty()) {
    out.resize(static_cast<size_t>(transform.OutputShape(record.pixels).Count()));
    return transform.Apply(record.pixels, id, transform_scratch, out);
  }
  const ImageSize size = scratch.decoder.Open(record.file, {.pixel_limit = 1 << 16});
  out.resize(static_cast<size_t>(transform.OutputShape(size).Count()));
  transform.ApplyOpened(size, scratch.decoder, id, scratch.clock, transform_scratch, out);
}

void LoadAndTransform(std::string_view wire) {
  static RecordScratch record_scratch;
  static TransformScratch transform_scratch;
  static const Transform transform = MakeTransform();
  static std::vector<float> out;
  const Record record = LoadDatum(wire, ImageChannels::kAsStored, record_scratch);
  out.resize(static_cast<size_t>(transform.OutputShape(record.pixels).Count()));
  transform.Apply(record.pixels, {0, wire.size()}, transform_scratch, out);
}

}  // namespace

FuzzTarget LmdbRecordFuzz() {
  return {"lmdb_record", [](std::string_view wire) {
            CheckAgainstProtobuf(wire);
            wire.size() % 2 == 0 ? LoadAndTransform(wire) : TransformPart(wire);
          }};
}

}  // namespace moka
