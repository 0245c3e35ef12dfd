// An ONNX model as a net of Moka's layers and their weights.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/quantization.h"
#include "proto/moka.pb.h"
#include "proto/weights/named_blob.h"
#include "tools/exchange/import/onnx_file.h"

namespace moka {

struct OnnxImportOptions {
  std::optional<int64_t> batch = {};        // in place of an open first dimension
  std::map<std::string, Ints> shapes = {};  // of inputs, in place of what the file says; "" is the only input's
};

struct ImportedNet {
  NetParameter net;
  std::vector<NamedBlob> weights;
  std::vector<std::string> outputs = {};  // blobs
  Quantization ranges = {};               // of a file of the QDQ format; of other files none
  bool is_batch_open = false;             // the net runs with any number of images
  int64_t nodes = 0;                      // of the file that became layers
};

// Errors: an ErrorList of kBadData with every op that has no form in layers, each with its nodes; kUsage for shapes of
// inputs that are not there; kConfig for inputs whose shape is open.
ImportedNet ImportOnnx(OnnxFile file, const OnnxImportOptions& options);

}  // namespace moka
