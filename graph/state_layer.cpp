// Found by who has the state as a blob; names alone do not tell, as a layer may be called "inception_3a/1x1".
#include "graph/state_layer.h"

#include <algorithm>
#include <string_view>

#include "graph/layer_names.h"

namespace moka {

namespace {

// "conv1/0" is of conv1: a blob without a name of its own is called by its layer and its place among the layer's.
bool IsBlobOf(std::string_view state, std::string_view layer) {
  if (!state.starts_with(layer) || state.size() < layer.size() + 2 || state[layer.size()] != '/') return false;
  return std::ranges::all_of(state.substr(layer.size() + 1), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string LayerOfState(const Graph& graph, ValueId state) {
  std::string name = graph.value(state).name;
  if (const size_t slot = name.rfind("/@"); slot != std::string::npos) {
    const std::string blob = name.substr(0, slot);
    for (ValueId id = 0; id < graph.value_count(); ++id) {
      if (graph.value(id).kind != ValueKind::kState || graph.value(id).name != blob) continue;
      state = id;
      name = blob;
      break;
    }
  }
  std::string first_reader;
  for (const NodeId id : graph.TopologicalOrder()) {
    const Node& node = graph.node(id);
    if (node.origin.layer.empty() || std::ranges::find(node.inputs, state) == node.inputs.end()) continue;
    for (const std::string& layer : LayersOf(node.origin.layer)) {
      if (IsBlobOf(name, layer)) return layer;
      if (first_reader.empty() && node.origin.pass != "update") first_reader = layer;
    }
  }
  return first_reader;
}

}  // namespace moka
