// First weights of a training that goes on from another net's (`moka train --from`): the layers whose numbers of
// outputs differ, such as a head of other classes, start fresh.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "graph/parameter_store.h"
#include "layers/net/layer.h"
#include "proto/weights/named_blob.h"

namespace moka {

// How a file's layers met those of a net that is to be trained from them.
struct StartLoaded {
  std::vector<std::string> loaded;
  std::vector<std::string> heads;    // with both numbers of outputs: "ip2 (10 there, 5 here)"
  std::vector<std::string> missing;  // layers only the net has
};

// Copies blobs by layer name. A layer of which nothing but the number of outputs (the first dimension) differs keeps
// the values that it has, and so does one behind it whose other dimensions differ by the same pair of numbers. Errors:
// those of LoadWeights for layers that differ in another way; kBadData where nothing is left to load.
StartLoaded LoadStartWeights(Weights weights, const std::string& file, std::span<const NetBlob> blobs,
                             ParameterStore& store);
// Reads the file and does that; one warning names the heads, others the layers that the file has under a name nearly
// theirs.
void LoadStart(const std::filesystem::path& file, std::span<const NetBlob> blobs, ParameterStore& store);

}  // namespace moka
