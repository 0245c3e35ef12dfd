// Builds nets from text with the errors as values, and evaluates tops by the interpreter.
#include "net_run.h"

#include "core/text.h"
#include "graph/interpreter.h"
#include "proto/text/text_format.h"

namespace moka {

BuiltNet BuildText(std::string_view text, Phase phase, const std::vector<std::string>& stages) {
  NetParameter net;
  ParseText(text, "net.prototxt", net);
  NetOptions options;
  options.state.set_phase(phase);
  for (const std::string& stage : stages) options.state.add_stage(stage);
  options.data_types = [](const LayerParameter& layer) {
    std::vector<TensorType> types{{DType::kFloat32, {4, 3, 8, 8}, {}}, {DType::kFloat32, {4}, {}}};
    types.resize(static_cast<size_t>(layer.top_size()));
    return types;
  };
  return BuildNet(net, options);
}

std::string ErrorsOf(std::string_view text, Phase phase) {
  try {
    BuildText(text, phase);
  } catch (const ErrorList& list) {
    std::vector<std::string> lines;
    for (const Error& error : list.errors()) lines.emplace_back(error.what());
    return Join(lines, "\n");
  } catch (const Error& error) {
    return error.what();
  }
  return "built";
}

std::string InputText(std::string_view top, const std::vector<int64_t>& shape) {
  std::string dims;
  for (const int64_t dim : shape) dims += StrCat("dim: ", dim, " ");
  return StrCat("layer { name: \"", top, "\" type: \"Input\" top: \"", top, "\" input_param { shape { ", dims,
                "} } }\n");
}

ValueId IdOf(const Graph& graph, std::string_view name) {
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kResult && value.name == name) return id;
  }
  Require(false, StrCat("the graph has an input or state ", name));
  return kNoId;
}

std::vector<RefTensor> Evaluate(const Graph& graph, const Feeds& feeds, const std::vector<ValueId>& wanted) {
  std::map<ValueId, RefTensor> fed;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::kResult) continue;
    const auto found = feeds.find(value.name);
    const size_t count = static_cast<size_t>(value.type.shape.Count());
    fed[id] = {value.type, found == feeds.end() ? std::vector<double>(count, 0.0) : found->second};
    Require(fed[id].values.size() == count, StrCat("as many values as ", value.name, " has"));
  }
  return Interpret(graph, fed, wanted);
}

std::vector<double> TopValues(const BuiltNet& net, const Feeds& feeds, const std::string& top) {
  return Evaluate(net.graph, feeds, {net.tops.at(top)}).front().values;
}

std::string OpsOf(const BuiltNet& net, std::string_view layer) {
  std::vector<std::string> ops;
  for (const NodeId id : net.graph.TopologicalOrder()) {
    const Node& node = net.graph.node(id);
    if (node.origin.layer == layer) ops.push_back(node.op->name);
  }
  return Join(ops, " ");
}

}  // namespace moka
