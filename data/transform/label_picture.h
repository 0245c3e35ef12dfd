// The label image of a record with boxes (MobileNet-YOLO's AnnotatedData with a third top): a grey picture in the
// datum's seg_label, cut and mirrored like the image and made a map for each class.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/types.h"
#include "data/records/record_source.h"
#include "data/transform/box_transform.h"
#include "proto/moka.pb.h"

namespace moka {

class LabelPicture {
 public:
  // Reads which classes a label picture has. With single_class there is one, of the pixels above 100; else they are
  // those of annotated_data_param.label_map_file, whose items' places are the pixels' values. Errors: kConfig, and
  // those of the file.
  LabelPicture(const AnnotatedDataParameter& param, const std::filesystem::path& base_folder);

  // [classes,H,W] for an image [C,H,W].
  Shape SampleShape(const Shape& image) const;
  // `boxes` says what was done to the record's image. Errors: kBadData. Requires: out holds a sample.
  void Write(std::string_view datum, const BoxScratch& boxes, const Shape& shape, RecordScratch& scratch,
             std::span<float> out) const;

 private:
  bool is_single_ = true;
  int64_t scale_ = 8;
  int64_t height_ = 0;  // 0: the image's by scale
  int64_t width_ = 0;
  int64_t classes_ = 1;
  std::array<int64_t, 256> class_of_{};  // of a pixel's value, from 1; 0: none
};

}  // namespace moka
