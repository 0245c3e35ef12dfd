// Records of pictures with a white rectangle, in which all that a record may have lies in one place, and layers of
// them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "data/import/record_maker.h"
#include "data/records/record_database.h"
#include "data/transform/record_transform.h"
#include "tests/data/data_fixture.h"
#include "tests/data/picture_fixture.h"

namespace moka {

// All that records may have.
inline constexpr const char* kRecordSchema =
    "version: 1 label { name: 'kind' class_name: 'a' class_name: 'b' class_name: 'c' } target: 'length_cm' "
    "target: 'angle' boxes: true box_class: 'none' box_class: 'cell' box_class: 'clump' box_masks: true mask: true "
    "point: 'head' point: 'foot' text: 'caption'";

class RecordLayers : public PictureLayers {
 protected:
  // Runs of a rectangle of pixels.
  static void AddRuns(const ImageWindow& window, int64_t height, int64_t width, SampleBox& box) {
    std::vector<uint32_t> runs = {0};
    bool is_object = false;
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t y = 0; y < height; ++y) {
        const bool is_inside =
            x >= window.x && x < window.x + window.width && y >= window.y && y < window.y + window.height;
        if (is_inside != is_object) runs.push_back(0);
        is_object = is_inside;
        ++runs.back();
      }
    }
    box.mutable_run()->Assign(runs.begin(), runs.end());
  }

  // A picture with a white rectangle, which is its second box, its mask's class 2 and the first point's centre; the
  // first box is difficult, has no mask and lies in the upper left corner.
  static SampleRecord RecordOf(int64_t height, int64_t width, const ImageWindow& window, int label = 1) {
    Image picture;
    picture.Resize(width, height, 3);
    Image mask;
    mask.Resize(width, height, 1);
    for (int64_t y = window.y; y < window.y + window.height; ++y) {
      for (int64_t x = window.x; x < window.x + window.width; ++x) {
        const auto at = static_cast<size_t>(y * width + x);
        std::fill_n(picture.pixels.begin() + static_cast<ptrdiff_t>(3 * at), 3, uint8_t{255});
        mask.pixels[at] = 2;
      }
    }
    const auto part = [](int64_t pixels, int64_t of) { return static_cast<float>(pixels) / static_cast<float>(of); };
    SampleRecord record;
    record.set_version(1);
    record.set_picture(EncodePng(picture));
    record.set_mask(EncodePng(mask));
    record.add_label(label);
    record.add_target(1.5F);
    record.add_target(-2);
    SampleBox& corner = *record.add_box();
    corner.set_label(1);
    corner.set_xmin(0);
    corner.set_ymin(0);
    corner.set_xmax(0.125F);
    corner.set_ymax(0.125F);
    corner.set_difficult(true);
    SampleBox& box = *record.add_box();
    box.set_label(2);
    box.set_xmin(part(window.x, width));
    box.set_ymin(part(window.y, height));
    box.set_xmax(part(window.x + window.width, width));
    box.set_ymax(part(window.y + window.height, height));
    AddRuns(window, height, width, box);
    SamplePoint& point = *record.add_point();
    point.set_x((box.xmin() + box.xmax()) / 2);
    point.set_y((box.ymin() + box.ymax()) / 2);
    point.set_visible(true);
    record.add_point()->set_x(0.5F);
    record.add_text("a white rectangle");
    return record;
  }

  static SampleRecord PictureRecord(const Image& picture) {
    SampleRecord record;
    record.set_version(1);
    record.set_picture(EncodePng(picture));
    return record;
  }

  // The same record with its picture's pixels stored raw.
  static SampleRecord RawOf(SampleRecord record) {
    Image picture;
    ImageDecoder().Decode(record.picture(), {}, picture);
    record.set_picture(PlanarBytes(picture));
    record.set_channels(static_cast<uint32_t>(picture.channels));
    record.set_height(static_cast<uint32_t>(picture.height));
    record.set_width(static_cast<uint32_t>(picture.width));
    return record;
  }

  void WriteRecords(const std::vector<SampleRecord>& records, const std::string& schema = kRecordSchema,
                    const std::string& name = "db") const {
    LmdbWriter writer(At(name));
    for (size_t i = 0; i < records.size(); ++i) {
      writer.Put(LmdbKey(static_cast<int64_t>(i), "r"), records[i].SerializeAsString());
    }
    writer.PutFile(kSchemaFile, schema);
    writer.Finish();
  }

  std::string FaultOf(const SampleRecord& record, const std::string& schema = kRecordSchema) const {
    SampleSchema parsed;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(schema, &parsed));
    SampleRecord read;
    return ErrorOf([&] { ParseSample(record.SerializeAsString(), parsed, read); });
  }

  // Outputs with as many tops.
  static std::string Fields(const std::vector<std::string>& outputs, const std::string& more, int64_t batch = 1,
                            const std::string& record_fields = "") {
    std::string text =
        "data_param { source: 'db' batch_size: " + std::to_string(batch) + " } record_data_param { " + record_fields;
    for (const std::string& output : outputs) text += " output: " + output;
    text += " } " + more;
    for (const std::string& output : outputs) text += " top: '" + output + "'";
    return text;
  }
};

}  // namespace moka
