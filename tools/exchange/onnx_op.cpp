// The first ONNX node of a net's node is called after its layer; further ones have a number.
#include "tools/exchange/onnx_op.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"

namespace moka {

const OnnxOp* FindOnnxOp(std::string_view op) {
  static const std::vector<OnnxOp> rows = OnnxOpRows();
  const auto found = std::ranges::find(rows, op, &OnnxOp::op);
  return found == rows.end() ? nullptr : &*found;
}

std::vector<std::string> OnnxNode::InputsFrom(int first) const {
  std::vector<std::string> names;
  for (int i = first; i < input_count(); ++i) names.push_back(In(i));
  return names;
}

std::string OnnxNode::NameWith(std::string_view end) const { return StrCat(LayersText(node_.origin.layer), "/", end); }

std::string OnnxNode::NextName(std::string_view type) { return onnx_.Unique(NameWith(type)); }

std::string OnnxNode::Add(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes) {
  const std::string name = NextName(type);
  onnx_.AddNode(type, name, inputs, {name}, attributes);
  return name;
}

void OnnxNode::Give(std::string_view type, const std::vector<std::string>& inputs, const Attributes& attributes,
                    int output, int count) {
  std::vector<std::string> outputs;
  for (int i = output; i < output + count; ++i) outputs.push_back(onnx_.NameOf(node_.outputs[static_cast<size_t>(i)]));
  onnx_.AddNode(type, NextName(type), inputs, outputs, attributes);
}

std::string OnnxNode::List(const Ints& values) {
  return onnx_.AddTensor({.name = NameWith("list"), .dims = {std::ssize(values)}, .ints = values, .is_whole = true});
}

void OnnxNode::Refuse(const std::string& why) const { throw Error(ErrorKind::kConfig, why); }

}  // namespace moka
