// The mean that transform_param subtracts from each pixel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

// The mean that is subtracted from each pixel before the scale: an image, or values.
struct PixelMean {
  Shape shape = {};                // [C,H,W] of the image; rank 0: none
  std::vector<float> image = {};   // row-major
  std::vector<float> values = {};  // none, one, or a group that repeats over the channels
  float ValueOf(int64_t channel) const {
    return values.empty() ? 0.0F : values[static_cast<size_t>(channel) % values.size()];
  }
};
// mean_file (looked for under the folder) or mean_value. Errors: kConfig when both are set or a number is not finite,
// kNoInput and kBadData for the file.
PixelMean ReadPixelMean(const TransformationParameter& transform, const std::filesystem::path& base_folder);

}  // namespace moka
