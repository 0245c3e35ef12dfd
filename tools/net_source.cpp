#include "tools/net_source.h"

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/pipeline.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

int64_t BatchOf(const LayerParameter& layer) {
  if (layer.type() == "ImageData") return layer.image_data_param().batch_size();
  return layer.data_param().batch_size();
}

}  // namespace

DataTypes ProbeDataTypes(Phase phase, const fs::path& base_folder) {
  return [phase, base_folder](const LayerParameter& layer) -> std::vector<TensorType> {
    PipelineOptions options;
    options.phase = phase;
    options.base_folder = base_folder;
    try {
      return OpenPipeline(layer, options)->types();
    } catch (const Error& error) {
      const int64_t crop = layer.transform_param().crop_size();
      const int64_t batch = BatchOf(layer);
      if (error.kind() != ErrorKind::kNoInput || crop <= 0 || batch <= 0) throw;
      LogWarning(StrCat("layer \"", layer.name(), "\": ", error.text(), "; going on with [", batch, ",3,", crop, ",",
                        crop, "]"));
      return {{DType::kFloat32, Shape{batch, 3, crop, crop}, {}}, {DType::kFloat32, Shape{batch}, {}}};
    }
  };
}

fs::path FindConfig(const std::string& config, std::string_view file) {
  std::error_code code;
  if (!fs::is_directory(config, code)) {
    if (fs::exists(config, code)) return config;
    throw Error(ErrorKind::kNoInput, StrCat("no file or folder ", Printable(config)));
  }
  const fs::path folder = config;
  for (const fs::path& candidate : {folder / file, folder / "config" / file}) {
    if (fs::exists(candidate, code)) return candidate;
  }
  throw Error(ErrorKind::kNoInput, StrCat(Printable(config), " holds no ", file, " (looked there and in its config/)"));
}

}  // namespace moka
