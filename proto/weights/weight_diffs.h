// Trained values with the last update of each beside them, as Caffe writes snapshots when snapshot_diff is set.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "proto/weights/named_blob.h"

namespace moka {

// As WriteCaffemodel and WriteHdf5Weights, with a diff for each blob: BlobProto's `diff`, and datasets
// diff/LAYER/INDEX. Requires: diffs are as many as blobs and as long, or there are none at all.
void WriteCaffemodelWithDiffs(const std::filesystem::path& path, const NetParameter& net,
                              std::span<const NamedBlob> blobs, std::span<const std::vector<float>> diffs);
void WriteHdf5WeightsWithDiffs(const std::filesystem::path& path, const NetParameter& net,
                               std::span<const NamedBlob> blobs, std::span<const std::vector<float>> diffs);

}  // namespace moka
