// The format follows the name, as Caffe's own tools tell it; the check before a training is the same function's first
// half.
#include "optim/checkpoint/weights_file.h"

#include "core/error.h"
#include "core/text.h"
#include "optim/checkpoint/caffe_state.h"
#include "proto/weights/npz.h"

namespace moka {

namespace fs = std::filesystem;

WeightsFormat WeightsFormatOf(const fs::path& file, std::string_view others) {
  const std::string name = file.filename().string();
  const bool is_state = name.ends_with(".solverstate") || name.ends_with(".solverstate.h5");
  if (name.ends_with(".safetensors")) return WeightsFormat::kSafetensors;
  if (name.ends_with(".npz")) return WeightsFormat::kNpz;
  if (name.ends_with(".caffemodel")) return WeightsFormat::kCaffemodel;
  if (IsHdf5Name(file) && !is_state) return WeightsFormat::kHdf5;
  throw Error(ErrorKind::kUsage,
              StrCat("what ", Printable(file.string()),
                     " should be does not follow from its name: end it in .safetensors, .caffemodel, ",
                     others.empty() ? ".caffemodel.h5 or .npz" : ".caffemodel.h5, .npz", others));
}

void CheckWeightsFile(const fs::path& file) {
  WeightsFormatOf(file);
  CheckPlaceOfFile(file);
}

void CheckPlaceOfFile(const fs::path& file) {
  std::error_code code;
  if (fs::is_directory(file, code)) {
    throw Error(ErrorKind::kCantCreate, StrCat("cannot write ", Printable(file.string()), ": it is a folder"));
  }
  const fs::path folder = file.parent_path();
  if (folder.empty() || fs::is_directory(folder, code)) return;
  throw Error(ErrorKind::kCantCreate,
              StrCat("cannot write ", Printable(file.string()), ": there is no folder ", Printable(folder.string())));
}

void WriteWeightsFile(const fs::path& file, const NetParameter& net, std::span<const NamedBlob> blobs,
                      const std::map<std::string, std::string>& metadata) {
  switch (WeightsFormatOf(file)) {
    case WeightsFormat::kCaffemodel: WriteCaffemodel(file, net, blobs); break;
    case WeightsFormat::kHdf5: WriteHdf5Weights(file, net, blobs); break;
    case WeightsFormat::kNpz: WriteNpz(file, blobs); break;
    case WeightsFormat::kSafetensors: WriteSafetensors(file, blobs, metadata); break;
  }
}

}  // namespace moka
