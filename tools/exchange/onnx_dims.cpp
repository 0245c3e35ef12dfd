// Two graphs that one builder made of one net have the same ids, so that a value is compared with itself.
#include "tools/exchange/onnx_dims.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"
#include "graph/op.h"

namespace moka {

std::string OnnxDim::ToString() const {
  if (!follows_batch()) return std::to_string(size);
  return per_item == 1 ? "N" : StrCat(per_item, "*N");
}

OnnxDims BatchedGraph::DimsOf(ValueId value) const {
  const Shape shape = graph->shape(value);
  OnnxDims dims;
  for (int i = 0; i < shape.rank(); ++i) {
    OnnxDim dim{.size = shape[i]};
    const int64_t there = other == nullptr ? dim.size : other->shape(value)[i];
    if (there != dim.size) {
      dim.per_item = dim.size / batch;
      if (dim.per_item < 1 || dim.per_item * batch != dim.size || dim.per_item * other_batch != there) {
        throw Error(ErrorKind::kConfig, StrCat("dimension ", i, " is ", dim.size, " for a batch of ", batch, " and ",
                                               there, " for ", other_batch, ", which is no multiple of it"));
      }
    }
    dims.push_back(dim);
  }
  return dims;
}

bool HaveOneStructure(const Graph& a, const Graph& b) {
  if (a.value_count() != b.value_count() || a.node_limit() != b.node_limit()) return false;
  for (NodeId id = 0; id < a.node_limit(); ++id) {
    if (a.IsAlive(id) != b.IsAlive(id)) return false;
    if (!a.IsAlive(id)) continue;
    const Node& x = a.node(id);
    const Node& y = b.node(id);
    if (x.op->name != y.op->name || x.inputs != y.inputs || x.outputs != y.outputs) return false;
  }
  for (ValueId id = 0; id < a.value_count(); ++id) {
    if (a.value(id).name != b.value(id).name || a.shape(id).rank() != b.shape(id).rank()) return false;
  }
  const auto is_same = [](const GraphOutput& x, const GraphOutput& y) {
    return x.name == y.name && x.value == y.value;
  };
  return std::ranges::equal(a.outputs(), b.outputs(), is_same);
}

std::string BatchedAttribute(const BatchedGraph& net, NodeId node, const std::vector<std::string>& may_differ) {
  if (net.other == nullptr) return {};
  const Attributes& there = net.other->node(node).attributes;
  for (const auto& [name, value] : net.graph->node(node).attributes.values()) {
    if (std::ranges::find(may_differ, name) != may_differ.end()) continue;
    const auto found = there.values().find(name);
    if (found == there.values().end() || found->second != value) return name;
  }
  return {};
}

}  // namespace moka
