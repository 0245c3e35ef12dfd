// Constants are added when the first node reads them, so that what no node reads is not in the file.
#include "tools/exchange/onnx_graph.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"

namespace moka {
namespace {

void SetAttribute(onnx::AttributeProto& attribute, const std::string& name, const AttributeValue& value) {
  attribute.set_name(name);
  if (const int64_t* i = std::get_if<int64_t>(&value)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*i);
  } else if (const double* f = std::get_if<double>(&value)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(*f));
  } else if (const std::string* s = std::get_if<std::string>(&value)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*s);
  } else if (const Ints* ints = std::get_if<Ints>(&value)) {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const int64_t one : *ints) attribute.add_ints(one);
  } else {
    ThrowBrokenPromise("an attribute of an ONNX node is a number, a text or a list of whole numbers");
  }
}

// A name for a value that has none of its own: its layer's, and the op's.
std::string NameByLayer(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (producer == kNoId) return StrCat("value", value);
  const Node& node = graph.node(producer);
  return StrCat(LayersText(node.origin.layer), "/", node.op->name);
}

// Leaves out the nodes and constants that no output needs: what a node was made of that another has taken in.
void KeepNeeded(OnnxModel& model) {
  onnx::GraphProto& graph = *model.proto.mutable_graph();
  std::set<std::string> needed;
  for (const onnx::ValueInfoProto& output : graph.output()) needed.insert(output.name());
  std::vector<bool> kept(static_cast<size_t>(graph.node_size()), false);
  for (int i = graph.node_size(); i-- > 0;) {
    const onnx::NodeProto& node = graph.node(i);
    if (std::ranges::none_of(node.output(), [&](const std::string& value) { return needed.contains(value); })) continue;
    needed.insert(node.input().begin(), node.input().end());
    kept[static_cast<size_t>(i)] = true;
  }
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (kept[static_cast<size_t>(i)]) *nodes.Add() = std::move(*graph.mutable_node(i));
  }
  graph.mutable_node()->Swap(&nodes);
  std::erase_if(model.tensors, [&](const OnnxTensor& tensor) { return !needed.contains(tensor.name); });
}

}  // namespace

OnnxGraph::OnnxGraph(const BatchedGraph& net, GraphConstants& constants, int64_t opset,
                     const std::map<ValueId, std::string>& names)
    : net_(net), constants_(constants), opset_(opset) {
  for (const auto& [value, name] : names) names_[value] = Unique(name);
}

const std::string& OnnxGraph::NameOf(ValueId value) {
  const auto found = names_.find(value);
  if (found != names_.end()) return found->second;
  const std::string& own = graph().value(value).name;
  return names_[value] = Unique(own.empty() ? NameByLayer(graph(), value) : own);
}

std::string OnnxGraph::Unique(const std::string& name) {
  std::string unique = name;
  for (int i = 2; !taken_.insert(unique).second; ++i) unique = StrCat(name, "_", i);
  return unique;
}

std::string OnnxGraph::Read(ValueId value) {
  if (!constants_.IsConstant(value)) {
    if (graph().value(value).kind == ValueKind::kState)
      throw Error(ErrorKind::kConfig, "it keeps a state from one run to the next");
    return NameOf(value);
  }
  const auto found = added_.find(value);
  if (found != added_.end()) return found->second;
  const OnnxDims dims = net_.DimsOf(value);
  const auto follows = [](const OnnxDim& dim) { return dim.follows_batch(); };
  if (std::ranges::any_of(dims, follows))
    throw Error(ErrorKind::kConfig, "it reads a constant that has an entry for each image of the batch");
  if (graph().type(value).dtype != DType::kFloat32)
    throw Error(ErrorKind::kConfig, StrCat("it reads a constant of ", moka::NameOf(graph().type(value).dtype)));
  const Shape shape = graph().shape(value);
  OnnxTensor tensor{.name = NameOf(value), .dims = DimsOf(shape), .floats = constants_.FloatsAt(value)};
  std::string name = tensor.name;
  model_.tensors.push_back(std::move(tensor));
  return added_[value] = std::move(name);
}

std::string OnnxGraph::AddTensor(OnnxTensor tensor) {
  tensor.name = Unique(tensor.name);
  model_.tensors.push_back(std::move(tensor));
  return model_.tensors.back().name;
}

std::string OnnxGraph::Scalar(double value) {
  const std::string text = ToText(static_cast<double>(static_cast<float>(value)));
  const auto found = scalars_.find(text);
  if (found != scalars_.end()) return found->second;
  return scalars_[text] = AddTensor({.name = text, .dims = {}, .floats = {static_cast<float>(value)}});
}

void OnnxGraph::AddNode(std::string_view type, const std::string& name, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const Attributes& attributes) {
  onnx::NodeProto& node = *model_.proto.mutable_graph()->add_node();
  node.set_op_type(std::string(type));
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  for (const auto& [key, value] : attributes.values()) SetAttribute(*node.add_attribute(), key, value);
}

void OnnxGraph::Describe(onnx::ValueInfoProto& info, const std::string& name, ValueId value) const {
  info.set_name(name);
  onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(OnnxTypeOf(graph().type(value).dtype));
  onnx::TensorShapeProto& shape = *type.mutable_shape();
  for (const OnnxDim& dim : net_.DimsOf(value)) {
    onnx::TensorShapeProto::Dimension& one = *shape.add_dim();
    if (dim.per_item == 1) one.set_dim_param("N");
    if (dim.per_item == 0) one.set_dim_value(dim.size);
    if (dim.per_item > 1) one.set_dim_param(dim.ToString());
  }
}

OnnxModel OnnxGraph::Finish(const std::vector<ValueId>& inputs, const std::vector<GraphOutput>& outputs) {
  onnx::GraphProto& proto = *model_.proto.mutable_graph();
  std::set<std::string> given;
  for (const GraphOutput& output : outputs) {
    const std::string name = Read(output.value);
    // An output that is an input, a constant or another output needs a node of its own.
    if (name != output.name || given.contains(name)) {
      const std::string own = output.name == name ? Unique(output.name) : output.name;
      AddNode("Identity", own, {name}, {own}, {});
      Describe(*proto.add_output(), own, output.value);
    } else {
      Describe(*proto.add_output(), name, output.value);
    }
    given.insert(output.name);
  }
  KeepNeeded(model_);
  for (const ValueId input : inputs) Describe(*proto.add_input(), graph().value(input).name, input);
  std::set<std::string> made;
  for (const onnx::NodeProto& node : proto.node()) made.insert(node.output().begin(), node.output().end());
  for (const auto& [value, name] : names_) {
    const bool is_other = graph().value(value).kind == ValueKind::kResult && !given.contains(name);
    if (is_other && made.contains(name)) Describe(*proto.add_value_info(), name, value);
  }
  return std::move(model_);
}

}  // namespace moka
