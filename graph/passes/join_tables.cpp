// Join tables: sums of rows of several tables of one shape by the same indices (the hops of a memory network) are one
// node, and so are their gradients: each index is then read, checked and weighed once for all of them.
// Requires: plain nodes. Ensures: the same outputs and assignments, bit for bit. What the members read and give lives
// until all of them have run.
#include <algorithm>
#include <map>

#include "core/text.h"
#include "graph/layer_names.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

class Joiner {
 public:
  Joiner(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  bool Run() {
    std::map<std::string, std::vector<NodeId>> groups;
    for (const NodeId id : graph_.TopologicalOrder()) {
      context_.Count(1);
      const Node& node = graph_.node(id);
      const bool is_member = node.op->name == "embed_sum" || node.op->name == "embed_sum_backward";
      const int depth = DepthOf(node);
      for (const ValueId output : node.outputs) depth_[output] = depth + (is_member ? 1 : 0);
      if (!is_member) continue;
      groups[StrCat(node.op->name, node.attributes.ToString(), " ", node.inputs[0], " ",
                    graph_.type(node.inputs[1]).ToString(), " ", graph_.type(node.outputs[0]).ToString(), " @", depth)]
          .push_back(id);
    }
    bool changed = false;
    for (const auto& [key, members] : groups) {
      if (members.size() < 2) continue;
      Join(members);
      changed = true;
    }
    return changed;
  }

 private:
  // Returns the number of members on that way from the graph's beginning to the node which has most of them: nodes of
  // one depth do not depend on one another, nor do they once nodes of other depths are joined.
  int DepthOf(const Node& node) const {
    int depth = 0;
    for (const ValueId input : node.inputs) {
      const auto it = depth_.find(input);
      if (it != depth_.end()) depth = std::max(depth, it->second);
    }
    return depth;
  }

  void Join(const std::vector<NodeId>& members) {
    const Node& first = graph_.node(members[0]);
    std::vector<ValueId> inputs{first.inputs[0]};
    std::vector<ValueId> before;
    NodeOrigin origin = first.origin;
    for (const NodeId id : members) {
      const Node& node = graph_.node(id);
      for (const ValueId input : std::span(node.inputs).subspan(1)) inputs.push_back(Now(input));
      before.insert(before.end(), node.outputs.begin(), node.outputs.end());
      if (id != members[0]) origin.layer = JoinedLayers(origin.layer, node.origin.layer);
      origin.sequence = std::max(origin.sequence, node.origin.sequence);
    }
    const std::string op = first.op->name;
    const Attributes attributes = first.attributes;
    const std::vector<ValueId> outputs = GraphBuilder(graph_, origin).Add(op, inputs, attributes);
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph_.ReplaceUses(before[i], outputs[i]);
      now_[before[i]] = outputs[i];
    }
    for (const NodeId id : members) graph_.RemoveNode(id);
  }

  ValueId Now(ValueId id) const {
    const auto it = now_.find(id);
    return it == now_.end() ? id : it->second;
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<ValueId, int> depth_;    // members on the way to a value
  std::map<ValueId, ValueId> now_;  // results of members, and of the nodes in their place
};

}  // namespace

bool JoinTables(Graph& graph, const PassContext& context) { return Joiner(graph, context).Run(); }

}  // namespace moka
