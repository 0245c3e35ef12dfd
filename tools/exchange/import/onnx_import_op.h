// How an op of ONNX becomes layers: a row for each kind of op, a function `OnnxImportOp NAME()` in
// tools/exchange/import/ops; the build finds them (tools/cmake/moka_rows.cmake).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/exchange/import/levels.h"
#include "tools/exchange/import/net_writer.h"
#include "tools/exchange/import/node_attributes.h"
#include "tools/exchange/import/onnx_file.h"

namespace moka {

class ImportNode;

struct OnnxImportOp {
  std::vector<std::string> types;  // of ONNX's ops
  void (*read)(ImportNode&) = nullptr;
  // Whether it takes whole numbers and truth values that the net computes or is given.
  bool takes_whole = false;
  // Whether it takes what QuantizeLinear gives.
  bool takes_levels = false;
  // Attributes of ONNX's that change nothing in what the row takes. Any other that it does not ask for is refused.
  AttributeNames idle = {};
};

// The rows of this build in no order that matters.
std::vector<OnnxImportOp> OnnxImportRows();
// Null if there is none.
const OnnxImportOp* FindImportOp(std::string_view type);

// A value of the ONNX graph: a constant, or a blob of the net.
struct ImportValue {
  OnnxConstant constant = nullptr;
  std::string blob = {};
  // The shape as ONNX sees it. A constant's may be larger than its tensor, which is then repeated along axes of 1.
  Ints dims = {};
  bool is_whole = false;  // whole numbers or truth values; in a blob they are floats
  // Set for what QuantizeLinear gives: the blob holds the real numbers, and only DequantizeLinear reads it.
  std::shared_ptr<const Levels> levels = nullptr;
  // A repeated constant at its whole shape, made when a node first reads it so; copies of the value share it.
  std::shared_ptr<OnnxConstant> repeated = nullptr;

  // The constant at its whole shape; null for a blob.
  OnnxConstant WholeConstant() const;
};
using ImportValues = std::map<std::string, ImportValue>;

// A node while it becomes layers: what a row reads of it, and the layers that it adds. What a row cannot say in layers
// it refuses by Refuse.
class ImportNode {
 public:
  ImportNode(const onnx::NodeProto& node, int64_t opset, ImportValues& values, NetWriter& net)
      : node_(node), opset_(opset), values_(values), net_(net) {}

  const onnx::NodeProto& proto() const { return node_; }
  int64_t opset() const { return opset_; }
  NodeAttributes attributes() const { return NodeAttributes(node_, &asked_); }
  // Errors: kConfig for an attribute that neither was asked for nor is one of these.
  void RefuseUnread(const AttributeNames& idle) const;
  bool Has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }
  // Input i. Errors: kConfig if it is missing.
  const ImportValue& x(int i) const;
  // The same as a constant of its whole shape; null for a value that is computed.
  OnnxConstant Constant(int i) const { return x(i).WholeConstant(); }
  // The same as a blob; a constant becomes one.
  std::string In(int i);
  // The net that the layers go to.
  NetWriter& net() const { return net_; }

  // Adds a layer on these blobs whose top has a name of its own, and returns that.
  std::string Add(const LayerParameter& layer, const std::vector<std::string>& bottoms,
                  std::vector<LayerBlob> blobs = {});
  // The same with several tops.
  std::vector<std::string> AddTops(const LayerParameter& layer, const std::vector<std::string>& bottoms,
                                   std::vector<LayerBlob> blobs, int count);
  // Adds the layer whose tops are the outputs of the node from the first on, as many as `count`.
  void Give(const LayerParameter& layer, const std::vector<std::string>& bottoms, std::vector<LayerBlob> blobs = {},
            int count = 1);
  // Says that output `i` is this value.
  void GiveValue(int i, ImportValue value) { values_[node_.output(i)] = std::move(value); }
  // Output `i` holds whole numbers or truth values.
  void MarkWhole(int i) { values_.at(node_.output(i)).is_whole = true; }
  // Errors: kConfig with the reason.
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  std::string LayerName() const;

  const onnx::NodeProto& node_;
  int64_t opset_;
  ImportValues& values_;
  NetWriter& net_;
  mutable AttributeNames asked_;
};

}  // namespace moka
