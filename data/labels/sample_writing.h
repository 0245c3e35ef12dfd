// Filling SampleRecords (proto/record.proto): boxes, and masks as files of one channel, of a picture's size.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/image/image.h"
#include "data/labels/annotation_file.h"
#include "data/labels/record_warning.h"
#include "proto/record.pb.h"

namespace moka {

// A schema of the version that is written, without anything.
SampleSchema NewSchema();
// A box that was measured in a picture of that size; what reaches outside is cut. A box without area is left out,
// which `warnings` tells, calling it `name`: then null is returned. Errors: kBadData for a label below 1.
SampleBox* AddBox(const PictureSize& size, const PixelBox& box, int32_t label, std::string_view name,
                  SampleRecord& record, RecordWarnings& warnings);

// All boxes of an annotation file.
void AddBoxes(const AnnotatedObjects& found, SampleRecord& record, RecordWarnings& warnings);

// A PNG's samples as they are stored, [height, width]: the indices of a palette, grey of 1 to 16 bits.
struct ValueMask {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint16_t> values;
};
// Errors: kBadData for another kind of file, for one of colours, and for one that its EXIF orientation turns.
ValueMask ReadValueMask(std::string_view file);
// As above, and its size must be the picture's.
ValueMask ReadValueMask(std::string_view file, const Image& picture);
// The file of a record's mask: the given one where it is a grey PNG of 8 bits, else a new one. The values that it has
// are told in `values`, if it is given. Errors: as above; kBadData for values above 255.
using MaskValues = std::bitset<256>;
std::string MaskFile(std::string file, const Image& picture, MaskValues* values = nullptr);

// Brings a record's masks to the size its picture is stored in: the nearest pixels.
void ResizeMasks(const PictureSize& from, const PictureSize& to, SampleRecord& record);

}  // namespace moka
