// Moka's own records (proto/record.proto): what a database of them says of itself, and a record, checked against that.
#pragma once

#include <bitset>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "data/image/image.h"
#include "data/records/record_source.h"
#include "proto/record.pb.h"

namespace moka {

inline constexpr const char* kSchemaFile = "schema.prototxt";  // in the database's folder
inline constexpr uint32_t kSampleVersion = 1;                  // of schema and records, the highest that is read

// Whether a database's folder says that it holds SampleRecords.
bool HasSampleSchema(const std::filesystem::path& database);
// Errors: kNoInput without the file, kConfig at its places, kBadData for a later version.
SampleSchema ReadSampleSchema(const std::filesystem::path& database);

// `record` keeps its capacity. Errors: kBadData saying what is wrong, or what the schema says otherwise.
void ParseSample(std::string_view wire, const SampleSchema& schema, SampleRecord& record);

// Returns for each point the one whose place it takes in a mirrored picture: `right_ear` for `left_ear` where both are
// there, and for others themselves.
std::vector<int> MirroredPoints(const google::protobuf::RepeatedPtrField<std::string>& names);

// A record's picture, raw in place or an image file. Requires: ParseSample found no fault.
Record PictureOf(const SampleRecord& record);
// Errors: kBadData unless it is a picture of one channel as large as the record's. Requires: the record has a mask.
void DecodeMask(const SampleRecord& record, const ImageSize& picture, ImageDecoder& decoder, Image& mask);

// Errors: kBadData for a value of a mask that none of so many classes has; 255 stands for pixels without a class.
void CheckMaskClasses(const std::bitset<256>& values, int classes);

// The number of the box that each pixel belongs to, from 1; 0: none. Crowds lie beneath difficult boxes and these
// beneath all others; of one kind objects of fewer pixels lie on top, of as many the later one. The number's low and
// high byte are pictures of their own, so that they may be moved as masks. Errors: kBadData when a box's runs do not
// make a picture of this size.
struct InstancePictures {
  Image low;
  Image high;
  size_t At(size_t pixel) const { return low.pixels[pixel] | static_cast<size_t>(high.pixels[pixel]) << 8U; }
};
void DrawInstances(const SampleRecord& record, int64_t height, int64_t width, InstancePictures& instances);

}  // namespace moka
