// The safetensors format: u64 header length, JSON header, values.
// Every rule of the format is checked, since each omission has been somebody's published bug: header at most 100 MB and
// within the file, "{" first, known dtypes, begin <= end <= size, span = product(shape) * size, no holes, no overlaps,
// no duplicate names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "proto/weights/named_blob.h"

namespace moka {

// Counters of PyTorch (IsTorchCounter in blob_name.h) are passed over. Errors: kBadData naming the tensor.
Weights ReadSafetensors(std::string_view bytes, const std::string& file);

// The numbers of filters and matrices in a file: kFloat16 rounds them to F16. Vectors (biases, scales, statistics) stay
// F32, as do blobs with a value that F16 cannot hold.
enum class StoredNumbers : uint8_t { kFloat32, kFloat16 };

// Tensors "layer/index", listed in the order given. Errors: kBadData on duplicate names.
void WriteSafetensors(const std::filesystem::path& path, std::span<const NamedBlob> blobs,
                      const std::map<std::string, std::string>& metadata = {},
                      StoredNumbers numbers = StoredNumbers::kFloat32);
// The same, with a name for each tensor.
void WriteSafetensors(const std::filesystem::path& path, std::span<const std::string> tensors,
                      std::span<const NamedBlob> blobs, const std::map<std::string, std::string>& metadata = {},
                      StoredNumbers numbers = StoredNumbers::kFloat32);

}  // namespace moka
