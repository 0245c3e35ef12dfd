// An ONNX file that is read and checked, before anything is made of it: its nodes in an order in which each comes
// behind those that it reads, its constants, its inputs and outputs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/onnx.pb.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

using OnnxConstant = std::shared_ptr<const OnnxTensor>;

// An input or output of the model.
struct OnnxPort {
  std::string name;
  int type = 0;  // TensorProto.DataType
  bool has_shape = false;
  Ints dims = {};                         // -1: a dimension without a number
  std::vector<std::string> symbols = {};  // its name, where it has one; one a dimension
};

struct OnnxFile {
  std::string name;  // for messages
  int64_t ir_version = 0;
  int64_t opset = 0;
  std::string producer = {};
  std::string graph_name = {};
  std::vector<onnx::NodeProto> nodes = {};  // only those that outputs need
  std::map<std::string, OnnxConstant> constants = {};
  std::vector<OnnxPort> inputs = {};
  std::vector<OnnxPort> outputs = {};
  std::map<std::string, std::string> metadata = {};
  // Layers that several nodes of the file were, by the output of the node that stands for them; it reads their bottoms.
  std::map<std::string, LayerParameter> layers = {};
  int64_t rounded = 0;  // constants of float64
};

inline constexpr int64_t kFirstReadIr = 3;

// Errors: kBadData naming the file and the tensor, node or value: cut short, no ONNX, a version that Moka does not
// read, names that are given twice, values that nothing makes, nodes that wait for each other; those of
// OnnxTensorReader.
OnnxFile ReadOnnxFile(const std::filesystem::path& file);
// The same of bytes; `folder` is where files beside it lie.
OnnxFile OnnxFileFromBytes(std::string_view bytes, const std::string& name, const std::filesystem::path& folder);

// Keeps the nodes that the outputs need, and the constants that these or the outputs read. Requires: each node comes
// behind those that it reads.
void KeepNeeded(OnnxFile& file);

// Whether a node is of ONNX's own ops.
bool IsMainOp(const onnx::NodeProto& node);
// A node as people call it: its name or, without one, its first output, and its op.
std::string NodeText(const onnx::NodeProto& node);
// "Conv", "com.microsoft.FusedConv".
std::string OpText(const onnx::NodeProto& node);

}  // namespace moka
