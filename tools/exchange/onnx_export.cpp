// The graph of ops is exported, not the net's layers: each op has one meaning, so that one row serves all layers that
// are made of it, and shapes are known. Nodes are written in their order by the rows of tools/exchange/ops; a row that
// refuses ends nothing, so that all refusals are told at once.
#include "tools/exchange/onnx_export.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "tools/exchange/batch_norms.h"
#include "tools/exchange/graph_constants.h"
#include "tools/exchange/onnx_graph.h"
#include "tools/exchange/onnx_op.h"

namespace moka {
namespace {

constexpr int64_t kIrVersion = 8;  // readers of opset 11 to 22 know it

// The last of several values of one name (in-place layers) has it, and the others are called after their layers.
std::map<ValueId, std::string> NamesOf(const Graph& graph, const std::vector<NodeId>& order) {
  std::map<ValueId, std::string> names;
  std::set<std::string> taken;
  const auto name = [&](ValueId value, const std::string& wanted) {
    if (!wanted.empty() && !names.contains(value) && taken.insert(wanted).second) names[value] = wanted;
  };
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).kind != ValueKind::kResult) name(id, graph.value(id).name);
  }
  for (const GraphOutput& output : graph.outputs()) name(output.value, output.name);
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    for (const ValueId output : node.outputs) {
      const std::string& own = graph.value(output).name;
      name(output, own);
      if (!own.empty()) name(output, StrCat(LayersText(node.origin.layer), "/", own));
    }
  }
  return names;
}

// Collects what cannot be exported, by layers in their order.
class Refusals {
 public:
  void Add(const NodeOrigin& origin, const std::string& why) {
    for (Refusal& refusal : all_) {
      if (refusal.layer != origin.layer) continue;
      if (std::ranges::find(refusal.reasons, why) == refusal.reasons.end()) refusal.reasons.push_back(why);
      return;
    }
    all_.push_back({origin.layer, origin.place, {why}});
  }

  // Errors: an ErrorList, if there is any.
  void Throw() const {
    std::vector<Error> errors;
    for (const Refusal& refusal : all_) {
      errors.emplace_back(ErrorKind::kBadData, refusal.place,
                          StrCat("layer \"", LayersText(refusal.layer),
                                 "\" cannot be exported to ONNX: ", Join(refusal.reasons, "; ")));
    }
    if (!errors.empty()) throw ErrorList(std::move(errors));
  }

 private:
  struct Refusal {
    std::string layer;
    SourcePlace place;
    std::vector<std::string> reasons;
  };
  std::vector<Refusal> all_;
};

void WriteNode(OnnxGraph& onnx, NodeId id) {
  const Node& node = onnx.graph().node(id);
  const OnnxOp* row = FindOnnxOp(node.op->name);
  if (row == nullptr) throw Error(ErrorKind::kConfig, StrCat("nothing here says op \"", node.op->name, "\" in ONNX"));
  const std::string batched = BatchedAttribute(onnx.net(), id, row->batched);
  if (!batched.empty()) {
    throw Error(ErrorKind::kConfig, StrCat("\"", batched, "\" of op \"", node.op->name,
                                           "\" follows the batch; --batch N exports the net for one number of images"));
  }
  OnnxNode writer(onnx, id);
  row->write(writer);
}

ValueId InputNamed(const Graph& graph, const std::string& name) {
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    if (graph.value(id).kind == ValueKind::kInput && graph.value(id).name == name) return id;
  }
  ThrowBrokenPromise("what is prepared is an input of the graph");
}

// Nodes in front of the net.
void WritePreparation(OnnxGraph& onnx, const OnnxPreparation& preparation) {
  const ValueId input = InputNamed(onnx.graph(), preparation.input);
  std::string value = onnx.NameOf(input);
  const auto add = [&](std::string_view type, const std::string& operand, const Attributes& attributes = {}) {
    const std::string name = onnx.Unique(StrCat("prepare/", type));
    onnx.AddNode(type, name, {value, operand}, {name}, attributes);
    value = name;
  };
  if (preparation.reverses_channels) {
    Ints channels;
    for (int64_t c = onnx.graph().shape(input)[1]; c-- > 0;) channels.push_back(c);
    const int64_t count = std::ssize(channels);
    OnnxTensor order{.name = "prepare/channels", .dims = {count}, .ints = std::move(channels), .is_whole = true};
    add("Gather", onnx.AddTensor(std::move(order)), {{"axis", int64_t{1}}});
  }
  const auto is_all = [](const OnnxTensor& tensor, float same) {
    return std::ranges::all_of(tensor.floats, [same](float one) { return one == same; });
  };
  if (!is_all(preparation.mean, 0)) add("Sub", onnx.AddTensor(preparation.mean));
  if (!is_all(preparation.factor, 1)) add("Mul", onnx.AddTensor(preparation.factor));
  onnx.Rename(input, value);
}

void Describe(OnnxModel& model, const ExportedNet& net, const OnnxOptions& options) {
  model.proto.set_ir_version(kIrVersion);
  model.proto.set_producer_name("moka");
  model.proto.set_producer_version(options.producer_version);
  model.proto.mutable_graph()->set_name(net.name.empty() ? "net" : net.name);
  onnx::OperatorSetIdProto& opset = *model.proto.add_opset_import();
  opset.set_domain("");
  opset.set_version(options.opset);
  for (const auto& [key, value] : options.metadata) {
    onnx::StringStringEntryProto& entry = *model.proto.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
}

// The inputs that a node reads, or that are outputs.
std::vector<ValueId> InputsOf(const Graph& graph) {
  const std::vector<std::vector<NodeId>> uses = graph.Uses();
  const std::vector<bool> pinned = Pinned(graph);
  std::vector<ValueId> inputs;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const auto i = static_cast<size_t>(id);
    if (graph.value(id).kind == ValueKind::kInput && (!uses[i].empty() || pinned[i])) inputs.push_back(id);
  }
  return inputs;
}

}  // namespace

void PrepareForExport(Graph& graph, const ParameterStore& store, const std::shared_ptr<const Quantization>& ranges) {
  CompileOptions options;
  options.inference = true;
  options.quantization = ranges;
  const PassContext context{.options = options, .store = store, .runs_elsewhere = true};
  Simplify(graph, context);
  if (ranges != nullptr) {
    FoldInference(graph, context);
    QuantizeInference(graph, context);
  }
  JoinBatchNorms(graph);
}

OnnxModel ExportOnnx(const ExportedNet& net, const OnnxOptions& options) {
  const Graph& graph = *net.graphs.graph;
  const std::vector<NodeId> order = graph.TopologicalOrder();
  GraphConstants constants(graph, *net.store);
  OnnxGraph onnx(net.graphs, constants, options.opset, NamesOf(graph, order));
  if (options.preparation) WritePreparation(onnx, *options.preparation);
  Refusals refusals;
  for (const NodeId id : order) {
    const Node& node = graph.node(id);
    const bool is_constant = std::ranges::all_of(node.outputs, [&](ValueId y) { return constants.IsConstant(y); });
    if (is_constant) continue;
    try {
      WriteNode(onnx, id);
      for (const ValueId output : node.outputs) net.graphs.DimsOf(output);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig) throw;
      refusals.Add(node.origin, error.text());
    }
  }
  refusals.Throw();
  OnnxModel model = onnx.Finish(InputsOf(graph), graph.outputs());
  Describe(model, net, options);
  return model;
}

}  // namespace moka
