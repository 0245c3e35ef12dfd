// The part that the tests of importers that make SampleRecords share: their records and schema, read with protobuf
// alone.
#pragma once

#include <google/protobuf/text_format.h>

#include <string>
#include <vector>

#include "core/text.h"
#include "proto/record.pb.h"
#include "tests/data/data_fixture.h"

namespace moka {

class SampleImports : public DataTest {
 protected:
  std::string Text(const std::string& name) const { return At(name).string(); }
  std::vector<SampleRecord> Records(const std::string& name = "db") const {
    const LmdbReader reader(At(name));
    std::vector<SampleRecord> records(static_cast<size_t>(reader.size()));
    for (int64_t i = 0; i < reader.size(); ++i) {
      EXPECT_TRUE(records[static_cast<size_t>(i)].ParseFromString(std::string(reader.value(i))));
      EXPECT_EQ(records[static_cast<size_t>(i)].version(), 1U);
    }
    return records;
  }
  SampleSchema Schema(const std::string& name = "db") const {
    SampleSchema schema;
    const std::string text = ReadFile(At(name) / "schema.prototxt");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schema)) << text;
    EXPECT_EQ(schema.version(), 1U);
    return schema;
  }
  // "label xmin ymin xmax ymax" and flags, of each box.
  static std::vector<std::string> Boxes(const SampleRecord& record) {
    std::vector<std::string> lines;
    for (const SampleBox& b : record.box()) {
      lines.push_back(StrCat(b.label(), " ", b.xmin(), " ", b.ymin(), " ", b.xmax(), " ", b.ymax(),
                             b.difficult() ? " difficult" : "", b.crowd() ? " crowd" : ""));
    }
    return lines;
  }
  static std::vector<uint32_t> Runs(const SampleBox& box) { return {box.run().begin(), box.run().end()}; }
  static Image Decoded(const std::string& file) {
    Image image;
    ImageDecoder().Decode(file, {}, image);
    return image;
  }
  static std::string Gray(int64_t width, int64_t height, std::vector<uint8_t> values) {
    Image image;
    image.Resize(width, height, 1);
    image.pixels = std::move(values);
    return EncodePng(image);
  }
};

}  // namespace moka
