// Weights in a file of the format that its name says: .safetensors, .caffemodel, Caffe's HDF5 (.caffemodel.h5), or
// NumPy's .npz.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "proto/moka.pb.h"
#include "proto/weights/weights.h"

namespace moka {

enum class WeightsFormat : uint8_t { kSafetensors, kCaffemodel, kHdf5, kNpz };

// Errors: kUsage for a name that says none; `others` are endings that the caller knows beside these (", .solverstate").
WeightsFormat WeightsFormatOf(const std::filesystem::path& file, std::string_view others = {});
// Refuses a place where no file can be made. Errors: kCantCreate for a folder that is missing, and for a file that is
// one.
void CheckPlaceOfFile(const std::filesystem::path& file);
// Refuses what WriteWeightsFile would refuse, before the weights are there. Errors: kUsage; those of CheckPlaceOfFile.
void CheckWeightsFile(const std::filesystem::path& file);
// `net` goes into Caffe's formats, the metadata into safetensors. Errors: kUsage, kCantCreate, kIo, kBadData for what
// the format cannot hold.
void WriteWeightsFile(const std::filesystem::path& file, const NetParameter& net, std::span<const NamedBlob> blobs,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace moka
