// The dump of a graph for --dump-after and tests, one node a line in topological order, and Verify, which proves after
// each pass what the next one relies on.
#include <set>

#include "core/text.h"
#include "graph/graph.h"
#include "graph/layer_names.h"
#include "graph/op.h"

namespace moka {
namespace {

std::string ValueName(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (value.kind == ValueKind::kResult) return StrCat("%", id);
  return StrCat(value.kind == ValueKind::kState ? "@" : "$", Printable(value.name));
}

std::string ValueList(const Graph& graph, const std::vector<ValueId>& ids, bool with_types) {
  std::string s;
  for (size_t i = 0; i < ids.size(); ++i) {
    s += StrCat(i > 0 ? ", " : "", ValueName(graph, ids[i]));
    if (with_types) s += ":" + graph.type(ids[i]).ToString();
  }
  return s;
}

std::string OriginText(const NodeOrigin& origin) {
  std::string s;
  if (!origin.layer.empty()) s += StrCat("  # ", Printable(LayersText(origin.layer)));
  if (!origin.pass.empty()) s += StrCat(s.empty() ? "  # " : " ", "(", origin.pass, ")");
  return s;
}

}  // namespace

std::string ToText(const Graph& graph) {
  std::string s;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::kResult) continue;
    s += StrCat(value.kind == ValueKind::kState ? "state " : "input ", ValueName(graph, id), ":", value.type.ToString(),
                "\n");
  }
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    s += StrCat(ValueList(graph, node.outputs, true), " = ", node.op->name, "(", ValueList(graph, node.inputs, false),
                ")", node.attributes.ToString(), OriginText(node.origin), "\n");
  }
  for (const Assignment& a : graph.assignments()) {
    s += StrCat("assign ", ValueName(graph, a.state), " = ", ValueName(graph, a.value), "\n");
  }
  for (const GraphOutput& output : graph.outputs()) {
    s += StrCat("output ", Printable(output.name), " = ", ValueName(graph, output.value), "\n");
  }
  return s;
}

void Verify(const Graph& graph, std::string_view after) {
  const auto demand = [&](bool ok, std::string_view promise) { Require(ok, StrCat("after ", after, ": ", promise)); };
  std::set<std::string> names;
  for (ValueId id = 0; id < graph.value_count(); ++id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kResult)
      demand(names.insert(value.name).second, "inputs and states have unique names");
  }
  const auto alive = [&](ValueId id) {
    if (id < 0 || id >= graph.value_count()) return false;
    const NodeId producer = graph.value(id).producer;
    return producer == kNoId || graph.IsAlive(producer);
  };
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    for (const ValueId input : node.inputs) demand(alive(input), StrCat("node ", id, " reads live values"));
    std::vector<TensorType> inputs = graph.InputTypes(node);
    for (TensorType& type : inputs) type.layout = {};
    const std::vector<TensorType> types = node.op->infer(node.attributes, inputs);
    demand(types.size() == node.outputs.size(), StrCat("node ", id, " has the outputs its op says"));
    for (size_t i = 0; i < types.size(); ++i) {
      const TensorType& type = graph.type(node.outputs[i]);
      demand(type.shape == types[i].shape && type.dtype == types[i].dtype,
             StrCat("node ", id, " ", node.op->name, " of ", LayersText(node.origin.layer), ": output ", i,
                    " has the type inferred, ", types[i].ToString(), ", found ", type.ToString()));
    }
  }
  for (const GraphOutput& output : graph.outputs()) demand(alive(output.value), "outputs are live values");
  std::set<ValueId> assigned;
  for (const Assignment& a : graph.assignments()) {
    demand(alive(a.value), "assigned values are live");
    demand(assigned.insert(a.state).second, "a state is assigned once");
    demand(graph.shape(a.state) == graph.shape(a.value), "an assignment keeps the shape");
  }
}

}  // namespace moka
