// The message is checked on the wire before it is parsed (proto/wire.h). Nodes are then put in order by counting what
// each still waits for (Kahn 1962), as files of some writers are in none.
#include "tools/exchange/import/onnx_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/open_file.h"
#include "core/text.h"
#include "proto/wire.h"
#include "tools/exchange/import/onnx_tensors.h"
#include "tools/exchange/onnx_export.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

Error Fault(const std::string& file, const std::string& text, const std::string& hint = {}) {
  return {ErrorKind::kBadData, SourcePlace{.file = file}, text, hint};
}

std::string Quoted(std::string_view name) { return StrCat("\"", Printable(name), "\""); }

bool IsMainDomain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

int64_t OpsetOf(const onnx::ModelProto& model, const std::string& file) {
  int64_t opset = 0;
  for (const onnx::OperatorSetIdProto& entry : model.opset_import()) {
    if (!IsMainDomain(entry.domain())) continue;
    if (opset != 0 && opset != entry.version()) throw Fault(file, "the file says two versions of ONNX's ops");
    opset = entry.version();
  }
  if (opset == 0) throw Fault(file, "the file does not say which version of ONNX's ops it uses (opset_import)");
  if (opset < kFirstOpset || opset > kLastOpset) {
    throw Fault(file, StrCat("the file uses opset ", opset, ", and Moka reads ", kFirstOpset, " to ", kLastOpset),
                StrCat("onnx.version_converter.convert_version(model, ", kUsualOpset, ") brings it there"));
  }
  return opset;
}

OnnxPort PortOf(const onnx::ValueInfoProto& value) {
  OnnxPort port{.name = value.name()};
  const onnx::TypeProto::Tensor& type = value.type().tensor_type();
  port.type = type.elem_type();
  port.has_shape = type.has_shape();
  for (const onnx::TensorShapeProto::Dimension& dim : type.shape().dim()) {
    port.dims.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    port.symbols.push_back(dim.dim_param());
  }
  return port;
}

void CheckPort(const onnx::ValueInfoProto& value, const std::string& what, const std::string& file) {
  if (value.name().empty()) throw Fault(file, StrCat("an ", what, " has no name"));
  if (!value.type().has_tensor_type())
    throw Fault(file, StrCat(what, " ", Quoted(value.name()), " is no tensor, and Moka reads no other values"));
  const onnx::TensorShapeProto& shape = value.type().tensor_type().shape();
  if (shape.dim_size() > Shape::kMaxRank) {
    throw Fault(file, StrCat(what, " ", Quoted(value.name()), " has ", shape.dim_size(), " dimensions; the limit is ",
                             Shape::kMaxRank));
  }
  for (const onnx::TensorShapeProto::Dimension& dim : shape.dim()) {
    if (!dim.has_dim_value() || dim.dim_value() >= 0) continue;
    throw Fault(file, StrCat(what, " ", Quoted(value.name()), " has a dimension of ", dim.dim_value()));
  }
}

// Names that are made, each once.
class Makers {
 public:
  explicit Makers(std::string file) : file_(std::move(file)) {}

  void Add(const std::string& value, const std::string& by) {
    const auto [old, is_new] = makers_.emplace(value, by);
    if (!is_new) throw Fault(file_, StrCat("value ", Quoted(value), " is made twice: by ", old->second, " and ", by));
  }
  bool Has(const std::string& value) const { return makers_.contains(value); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, by] : makers_) names.push_back(name);
    return names;
  }

 private:
  std::string file_;
  std::map<std::string, std::string> makers_;
};

void ReadConstants(onnx::GraphProto& graph, OnnxTensorReader& reader, Makers& makers, OnnxFile& out) {
  if (graph.sparse_initializer_size() > 0)
    throw Fault(out.name, StrCat("the file has ", graph.sparse_initializer_size(), " sparse tensors"));
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    if (tensor.name().empty()) throw Fault(out.name, "an initializer has no name");
    makers.Add(tensor.name(), "an initializer");
    out.constants[tensor.name()] = std::make_shared<OnnxTensor>(reader.Read(tensor, tensor.name()));
  }
}

void ReadPorts(const onnx::GraphProto& graph, Makers& makers, OnnxFile& out) {
  for (const onnx::ValueInfoProto& input : graph.input()) {
    CheckPort(input, "input", out.name);
    if (out.constants.contains(input.name())) continue;  // it may be given, and has a value where it is not
    makers.Add(input.name(), "an input");
    out.inputs.push_back(PortOf(input));
  }
  std::set<std::string> given;
  for (const onnx::ValueInfoProto& output : graph.output()) {
    CheckPort(output, "output", out.name);
    if (!given.insert(output.name()).second)
      throw Fault(out.name, StrCat("output ", Quoted(output.name()), " is given twice"));
    out.outputs.push_back(PortOf(output));
  }
  if (out.outputs.empty()) throw Fault(out.name, "the graph has no output");
}

using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

void CheckNodes(const NodeList& nodes, const OnnxFile& out, Makers& makers) {
  for (const onnx::NodeProto& node : nodes) {
    if (node.op_type().empty()) throw Fault(out.name, StrCat("node ", NodeText(node), " has no op"));
    for (const std::string& output : node.output()) {
      if (!output.empty()) makers.Add(output, StrCat("node ", NodeText(node)));
    }
    std::set<std::string> names;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!names.insert(attribute.name()).second)
        throw Fault(out.name, StrCat("node ", NodeText(node), " has attribute ", Quoted(attribute.name()), " twice"));
    }
  }
  const auto unknown = [&](const std::string& value, const std::string& by) {
    throw Fault(out.name, StrCat(by, " reads ", Quoted(value), ", which nothing makes"),
                DidYouMean(value, makers.Names()));
  };
  for (const onnx::NodeProto& node : nodes) {
    for (const std::string& input : node.input()) {
      if (!input.empty() && !makers.Has(input)) unknown(input, StrCat("node ", NodeText(node)));
    }
  }
  for (const OnnxPort& output : out.outputs) {
    if (!makers.Has(output.name)) unknown(output.name, "the graph's list of outputs");
  }
}

// The nodes' places in an order in which each comes behind those that it reads; the first that can come does.
std::vector<int> OrderOf(const NodeList& nodes, const std::string& file) {
  std::map<std::string, int> maker;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) maker[output] = i;
  }
  std::vector<int> waits(static_cast<size_t>(nodes.size()), 0);
  std::vector<std::vector<int>> readers(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& input : nodes[i].input()) {
      const auto found = maker.find(input);
      if (input.empty() || found == maker.end()) continue;
      readers[static_cast<size_t>(found->second)].push_back(i);
      ++waits[static_cast<size_t>(i)];
    }
  }
  std::set<int> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (waits[static_cast<size_t>(i)] == 0) ready.insert(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int next = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(next);
    for (const int reader : readers[static_cast<size_t>(next)]) {
      if (--waits[static_cast<size_t>(reader)] == 0) ready.insert(reader);
    }
  }
  if (std::ssize(order) == nodes.size()) return order;
  std::vector<std::string> stuck;
  for (int i = 0; i < nodes.size() && stuck.size() < 5; ++i) {
    if (waits[static_cast<size_t>(i)] > 0) stuck.push_back(NodeText(nodes[i]));
  }
  throw Fault(file, StrCat("nodes wait for each other in a circle, or for such a circle: ", Join(stuck, ", ")));
}

}  // namespace

void KeepNeeded(OnnxFile& file) {
  std::set<std::string> needed;
  for (const OnnxPort& output : file.outputs) needed.insert(output.name);
  std::vector<onnx::NodeProto> kept;
  for (size_t i = file.nodes.size(); i-- > 0;) {
    onnx::NodeProto& node = file.nodes[i];
    if (std::ranges::none_of(node.output(), [&](const std::string& value) { return needed.contains(value); })) continue;
    needed.insert(node.input().begin(), node.input().end());
    kept.push_back(std::move(node));
  }
  std::ranges::reverse(kept);
  file.nodes = std::move(kept);
  std::erase_if(file.constants, [&](const auto& constant) { return !needed.contains(constant.first); });
}

bool IsMainOp(const onnx::NodeProto& node) { return IsMainDomain(node.domain()); }

std::string OpText(const onnx::NodeProto& node) {
  return Printable(IsMainOp(node) ? node.op_type() : StrCat(node.domain(), ".", node.op_type()));
}

std::string NodeText(const onnx::NodeProto& node) {
  const std::string& name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : node.name();
  return StrCat(Quoted(name), " (", OpText(node), ")");
}

OnnxFile OnnxFileFromBytes(std::string_view bytes, const std::string& name, const fs::path& folder) {
  OnnxFile out{.name = name};
  onnx::ModelProto model;
  ParseWire(bytes, name, "an ONNX model", model);
  if (!model.has_graph()) throw Fault(name, "this is no ONNX model: it has no graph");
  out.ir_version = model.ir_version();
  if (out.ir_version < kFirstReadIr)
    throw Fault(name, StrCat("the file is of version ", out.ir_version, " of ONNX's format; Moka reads ", kFirstReadIr,
                             " and later"));
  out.opset = OpsetOf(model, name);
  if (model.functions_size() > 0) {
    throw Fault(name, StrCat("the file has functions of its own (", Quoted(model.functions(0).name()), ", ..)"),
                "onnx.inliner.inline_local_functions(model) puts them into the graph");
  }
  out.producer = Join({model.producer_name(), model.producer_version()}, " ");
  out.graph_name = model.graph().name();
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) out.metadata[entry.key()] = entry.value();
  OnnxTensorReader reader(name, folder);
  Makers makers(name);
  onnx::GraphProto& graph = *model.mutable_graph();
  ReadConstants(graph, reader, makers, out);
  ReadPorts(graph, makers, out);
  CheckNodes(graph.node(), out, makers);
  for (const int i : OrderOf(graph.node(), name)) out.nodes.push_back(std::move(*graph.mutable_node(i)));
  KeepNeeded(out);
  for (onnx::NodeProto& node : out.nodes) {
    if (node.op_type() != "Constant" || !IsMainOp(node) || node.output_size() != 1) continue;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() != "value" || !attribute.has_t()) continue;
      const std::string value = node.output(0);
      out.constants[value] = std::make_shared<OnnxTensor>(reader.Read(*attribute.mutable_t(), value));
    }
  }
  std::erase_if(out.nodes, [&](const onnx::NodeProto& node) {
    return node.op_type() == "Constant" && node.output_size() == 1 && out.constants.contains(node.output(0));
  });
  out.rounded = reader.rounded();
  return out;
}

OnnxFile ReadOnnxFile(const fs::path& file) {
  OpenFile open = OpenFile::ForReading(file);
  const int64_t bytes = open.bytes();
  if (bytes == 0) throw Fault(file.string(), "the file is empty");
  const MappedFile mapped(open.Release(), bytes, file);
  OnnxFile read =
      OnnxFileFromBytes({mapped.data(), static_cast<size_t>(mapped.bytes())}, file.string(), file.parent_path());
  mapped.Check();
  return read;
}

}  // namespace moka
