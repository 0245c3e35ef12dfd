// Reads mean_value or mean_file, and refuses both together, as Caffe does.
#include "data/transform/pixel_mean.h"

#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "data/transform/transform.h"

namespace moka {

PixelMean ReadPixelMean(const TransformationParameter& transform, const std::filesystem::path& base_folder) {
  const auto fault = [](std::string_view field, const std::string& text) {
    return Error(ErrorKind::kConfig, StrCat("transform_param.", field, ": ", text));
  };
  if (!std::isfinite(transform.scale())) throw fault("scale", StrCat(transform.scale(), " is not a finite number"));
  PixelMean mean;
  for (const float value : transform.mean_value()) {
    if (!std::isfinite(value)) throw fault("mean_value", StrCat(value, " is not a finite number"));
    mean.values.push_back(value);
  }
  if (!transform.has_mean_file()) return mean;
  if (!mean.values.empty()) throw fault("mean_value", "mean_file is set too; keep one");
  ReadMeanImage(base_folder / transform.mean_file(), mean.shape, mean.image);
  return mean;
}

}  // namespace moka
