// Contact sheets: what a data layer makes of its records, as a picture to be looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/types.h"
#include "data/image/image.h"
#include "proto/moka.pb.h"

namespace moka {

struct PreviewOptions {
  Phase phase = TRAIN;
  uint64_t seed = 1;
  int64_t records = 4;  // at most
  int64_t epochs = 8;
  std::filesystem::path base_folder = {};
};

// A row for each of the first records, a column for each epoch, in the colours before mean and scale. Records come in
// order, and a column is one batch, the first of its epoch; boxes are drawn, label pictures laid over their pictures in
// colours. Errors: as OpenPipeline; kConfig for a layer whose first top is no picture of 1 or 3 channels.
Image PreviewLayer(const LayerParameter& layer, const PreviewOptions& options);

// A sample [C,H,W] of 1 or 3 channels in the colours before mean and scale; `mean_file`, which cannot be taken back
// here, is left out.
Image PictureOfSample(const TransformationParameter& transform, const Shape& sample, std::span<const float> values);

// One under the other, each below its caption.
struct CaptionedImage {
  std::string caption;  // ASCII
  Image image;
};
Image Stacked(const std::vector<CaptionedImage>& images);

}  // namespace moka
