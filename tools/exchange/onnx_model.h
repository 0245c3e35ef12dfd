// A model in memory as an ONNX file holds it: the messages, and apart from them the weights, which go into the file or
// into one beside it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/types.h"
#include "graph/attributes.h"
#include "proto/onnx.pb.h"

namespace moka {

// A constant of the model: float32, or whole numbers.
struct OnnxTensor {
  std::string name;
  Ints dims;
  std::vector<float> floats = {};
  Ints ints = {};
  bool is_whole = false;         // `ints` holds its values
  DType stored = DType::kInt64;  // what a file that is written holds `ints` as: kInt8, kUInt8, kInt32, kInt64

  int64_t Bytes() const;  // in a file
};

struct OnnxModel {
  onnx::ModelProto proto;  // without its constants
  std::vector<OnnxTensor> tensors;

  int64_t TensorBytes() const;
};

// The number of ONNX's TensorProto.DataType.
int OnnxTypeOf(DType dtype);

// Weights of more bytes than this do not fit into one message beside the rest (protobuf's limit is 2 GiB).
inline constexpr int64_t kOnnxInlineBytes = int64_t{2000} << 20;
// Where weights begin in a file of their own: a multiple of this, so that it can be mapped.
inline constexpr int64_t kOnnxAlignment = 4096;

// Writes the model whole or not at all. If its weights are too many, or `apart`, they go into FILE.data beside it,
// which the model names without a folder, and which is there before the model is. Returns the names of the files
// written. Errors: kCantCreate, kIo.
std::vector<std::filesystem::path> WriteOnnxModel(const std::filesystem::path& file, OnnxModel model, bool apart);

}  // namespace moka
