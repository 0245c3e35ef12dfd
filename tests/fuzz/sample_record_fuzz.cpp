// Any bytes as one of Moka's own records, whose picture, mask, boxes and points are then cut and changed.
#include <algorithm>
#include <vector>

#include "data/transform/record_transform.h"
#include "tests/fuzz/fuzz_target.h"

namespace moka {
namespace {

// Returns the schema of the seeds.
SampleSchema MakeSchema() {
  SampleSchema schema;
  schema.add_label();
  schema.add_target("length_cm");
  schema.set_boxes(true);
  schema.set_box_masks(true);
  schema.set_mask(true);
  schema.add_point("head");
  return schema;
}

RecordTransform MakeTransform() {
  LayerParameter layer;
  layer.mutable_record_data_param()->set_height(9);
  layer.mutable_record_data_param()->set_width(11);
  layer.mutable_transform_param()->set_crop_size(8);
  layer.mutable_transform_param()->set_mirror(true);
  layer.mutable_transform_param()->add_augment()->mutable_affine()->set_degrees(30);
  return {layer, TRAIN, 1, {.mask = true, .instances = true}};
}

void Run(std::string_view wire) {
  static const SampleSchema schema = MakeSchema();
  static const RecordTransform transform = MakeTransform();
  static RecordPictureScratch scratch;
  static TransformScratch transform_scratch;
  static ImageDecoder decoder;
  static std::vector<float> out;
  ParseSample(wire, schema, scratch.record);
  const Shape shape = transform.OutputShape(scratch, decoder);
  out.resize(static_cast<size_t>(shape.Count()));
  StageClock clock;
  transform.Apply({0, wire.size()}, shape, decoder, clock, transform_scratch, scratch, out);
  const auto inside = [](float x) { return x >= 0 && x <= 1; };
  for (const Annotated& a : scratch.boxes) {
    if (!inside(a.box.xmin) || !inside(a.box.ymin) || !inside(a.box.xmax) || !inside(a.box.ymax)) std::abort();
  }
}

}  // namespace

FuzzTarget SampleRecordFuzz() { return {"sample_record", Run}; }

}  // namespace moka
