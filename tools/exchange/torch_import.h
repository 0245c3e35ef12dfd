// Weights of PyTorch (.safetensors or .npz with the names of a module's state_dict) for a net of the zoo.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/weights/named_blob.h"
#include "tools/exchange/torch_names.h"

namespace moka {

struct ImportedWeights {
  TorchNames names;
  int64_t tensors = 0;                // of the file
  std::vector<std::string> left_out;  // tensors among them, of a part that the net lacks
  std::vector<NamedBlob> blobs;
  std::vector<std::string> fresh;    // layers that start anew (FromTorch)
  std::vector<std::string> swapped;  // blobs
  std::vector<std::string> inputs;   // layers of `net` whose pictures' mean and deviation are the table's
  NetParameter net;                  // blocks expanded
};

// Reads `weights` for the net of `net`, a prototxt beside which the table of names lies, with `overrides` applied. A
// warning names layers that start anew. Errors: those of ReadNet, ReadTorchNames and BuildNet; kNoInput for a net
// without a table; kBadData for values that are not finite, and for a file that is not the net's, which says how many
// names do not match and which net of the zoo is nearest.
ImportedWeights ImportTorchWeights(const std::filesystem::path& weights, const std::filesystem::path& net,
                                   const std::vector<std::string>& overrides);

// The table of names beside a net, or where there is none, that of the model of the zoo called `model`. Errors:
// kNoInput, with the models that have one.
TorchNames TorchNamesFor(const std::filesystem::path& net, const std::string& model);

// Errors: kConfig for the table of a model whose namesake is another net, with what differs.
void RefuseOtherNet(const TorchNames& names);

}  // namespace moka
