// Weights between the names and the order of channels of a module of PyTorch and those of a net, by a table of names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "layers/net/layer.h"
#include "proto/moka.pb.h"
#include "proto/weights/weights.h"
#include "tools/exchange/torch_names.h"

namespace moka {

// How a file's tensors meet a table and a net's blobs.
struct TorchMatch {
  int64_t tensors = 0;                    // of the file
  std::vector<std::string> strangers;     // tensors that the table lacks
  std::vector<std::string> left_out;      // tensors of a part that the net lacks, as the table says
  std::vector<std::string> missing;       // tensors of the table that the file lacks, those of classes apart
  std::vector<std::string> other_shapes;  // "fc.weight is [512,1000], and fc1000/0 is [1000,512]: it is transposed"

  bool IsWhole() const { return strangers.empty() && missing.empty() && other_shapes.empty(); }
};

TorchMatch MatchTorch(const TorchNames& names, const Weights& weights, std::span<const NetBlob> blobs);

struct FromTorch {
  std::vector<NamedBlob> blobs;      // in the net's order
  std::vector<std::string> fresh;    // layers of another number of classes, or without weights in the file: left out
  std::vector<std::string> swapped;  // blobs whose input channels were R, G, B
};

// The file's values as the net's blobs. A running sum's weight is 1. Requires: the match is whole. Errors: kConfig at
// the table's row for a blob that the net lacks, and for one of the net's that the table lacks.
FromTorch BlobsFromTorch(const TorchNames& names, const Weights& weights, std::span<const NetBlob> blobs);

struct ToTorch {
  std::vector<std::string> tensors;  // names, in the table's order
  std::vector<NamedBlob> blobs;      // a value for each
};

// The net's values under the module's names; running sums are divided by their weight. Errors: kConfig as above.
ToTorch BlobsToTorch(const TorchNames& names, std::span<const NamedBlob> values, std::span<const NetBlob> blobs);

// The net with the table's mean and deviation, in 0..255 and in the order B, G, R, in the layers that give pictures to
// the blobs of the word rgb; the word's blobs take B, G, R then. Returns the names of these layers; none where the
// table says nothing of what goes in. Errors: kConfig where no layer of the net gives them.
std::vector<std::string> SetTorchInput(const TorchNames& names, NetParameter& net);

}  // namespace moka
