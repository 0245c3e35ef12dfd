// Names of blobs in formats that give each tensor one name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/weights/named_blob.h"

namespace moka {

// Sets layer and index by a name: "conv1/0" is blob 0 of conv1; a name without a number is blob 0 of its own.
void SplitBlobName(const std::string& name, NamedBlob& blob);
// "LAYER/INDEX".
std::string BlobName(const std::string& layer, int index);
// The same of each.
std::vector<std::string> BlobNames(std::span<const NamedBlob> blobs);

// Whether the name is that of the counter which PyTorch keeps with each batch norm: a whole number that nothing reads
// where, as in every model of torchvision, the norm's momentum is given.
bool IsTorchCounter(std::string_view name);
// Whether a name is one that PyTorch's modules give what they learn: "fc.weight", "bn1.running_mean".
bool IsTorchName(std::string_view name);

}  // namespace moka
