// How an op of a net is written in ONNX: a row for each op, a function `OnnxOp NAME()` in tools/exchange/ops; the build
// finds them (tools/cmake/moka_rows.cmake).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "tools/exchange/onnx_graph.h"

namespace moka {

class OnnxNode;

struct OnnxOp {
  std::string op;  // the name of the op in the net's graph
  void (*write)(OnnxNode&) = nullptr;
  std::vector<std::string> batched = {};  // attributes that may follow the batch
};

// The rows of this build in no order that matters.
std::vector<OnnxOp> OnnxOpRows();
// Null if there is none.
const OnnxOp* FindOnnxOp(std::string_view op);

// A node of the net while it is written: what a row reads of it, and the ONNX nodes that it adds for it. What it cannot
// say in ONNX it refuses by Refuse.
class OnnxNode {
 public:
  OnnxNode(OnnxGraph& onnx, NodeId id) : onnx_(onnx), node_(onnx.graph().node(id)) {}

  OnnxGraph& onnx() const { return onnx_; }
  const Node& node() const { return node_; }
  const Attributes& attributes() const { return node_.attributes; }
  int64_t opset() const { return onnx_.opset(); }
  int input_count() const { return static_cast<int>(node_.inputs.size()); }
  // With the first of the two batches.
  Shape x(int i) const { return onnx_.graph().shape(Input(i)); }
  Shape y(int i) const { return onnx_.graph().shape(node_.outputs[static_cast<size_t>(i)]); }
  ValueId Input(int i) const { return node_.inputs[static_cast<size_t>(i)]; }
  // The name of input i, and of all inputs from it on.
  std::string In(int i) const { return onnx_.Read(Input(i)); }
  std::vector<std::string> InputsFrom(int first) const;

  // Adds a node whose result has a name of its own, and returns the name.
  std::string Add(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes = {});
  // Adds the node whose results are the outputs of this one from `output` on.
  void Give(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes = {},
            int output = 0, int count = 1);
  // A name behind the node's layer: "conv1/scale".
  std::string NameWith(std::string_view end) const;
  // A list of whole numbers, as ONNX has shapes and axes.
  std::string List(const Ints& values);
  // Errors: kConfig with the reason.
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  std::string NextName(std::string_view type);

  OnnxGraph& onnx_;
  const Node& node_;
};

}  // namespace moka
