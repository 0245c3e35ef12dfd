// Group updates: on a GPU, the updates' expressions that are the same over tensors of their own become one
// pointwise_group, and sums of the same expression over whole tensors (norms, checks for what is not finite) one
// reduce_group: a net of a hundred small parameters then has one kernel to update them, and one for the running
// statistics of its batch norms.
// Requires: final layouts. Ensures: the same outputs and assignments; some kernel takes each group. What members read
// and give lives until the group has run.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "core/text.h"
#include "graph/binding.h"
#include "graph/expression.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

// A node of the updates as a member of a group: its tensors come first, then its own scalars, then the shared ones.
struct Member {
  NodeId node = kNoId;
  std::vector<ValueId> tensors;
  std::vector<ValueId> scalars;
  std::vector<ValueId> shared;
  Strings texts;
  std::string key;  // what members of one group have in common
};

class Grouper {
 public:
  Grouper(Graph& graph, const PassContext& context) : graph_(graph), context_(context), uses_(graph.Uses()) {
    for (const Assignment& assignment : graph.assignments()) assigned_.insert(assignment.value);
  }

  bool Run() {
    std::map<std::string, std::vector<Member>> groups;
    for (const NodeId id : graph_.TopologicalOrder()) {
      context_.Count(1);
      const Node& node = graph_.node(id);
      const int depth = DepthOf(node);
      std::optional<Member> member = AsMember(node);
      for (const ValueId output : node.outputs) depth_[output] = depth + (member ? 1 : 0);
      if (!member) continue;
      member->key += StrCat(" @", depth);
      groups[member->key].push_back(std::move(*member));
    }
    bool changed = false;
    for (const auto& [key, members] : groups) changed = (members.size() > 1 && MakeGroup(members)) || changed;
    return changed;
  }

 private:
  // Returns the depth of a node: the number of possible members on that way from the graph's beginning to it which has
  // most of them. Nodes of one depth do not depend on one another, nor do they once nodes of other depths are grouped.
  int DepthOf(const Node& node) const {
    int depth = 0;
    for (const ValueId input : node.inputs) {
      const auto it = depth_.find(input);
      if (it != depth_.end()) depth = std::max(depth, it->second);
    }
    return depth;
  }

  // A scalar that is computed for one node alone.
  bool IsOwn(ValueId scalar) const {
    return graph_.value(scalar).producer != kNoId && uses_[static_cast<size_t>(scalar)].size() == 1;
  }

  static bool IsSum(const Node& node) { return node.op->name == "reduce_sum"; }

  // Returns whether the node is of the update, or gives states their next values and nothing else, so that it can as
  // well be done late.
  bool IsUpdate(const Node& node) const {
    if (node.origin.pass == "update") return node.op->name == "pointwise" || IsSum(node);
    return node.op->name == "pointwise" && std::ranges::all_of(node.outputs, [&](ValueId id) {
             return assigned_.contains(id) && uses_[static_cast<size_t>(id)].empty();
           });
  }

  std::optional<Member> AsMember(const Node& node) const {
    if (!IsUpdate(node)) return std::nullopt;
    const TensorType& whole = graph_.type(IsSum(node) ? node.inputs[0] : node.outputs[0]);
    const auto lies_alike = [&](ValueId id) {
      return graph_.type(id).shape == whole.shape && graph_.type(id).layout == whole.layout;
    };
    if (IsSum(node) ? graph_.shape(node.outputs[0]).Count() != 1 : !std::ranges::all_of(node.outputs, lies_alike)) {
      return std::nullopt;
    }
    Member member;
    member.node = node.id;
    for (const ValueId input : node.inputs) {
      const bool is_scalar = graph_.shape(input).rank() == 0 && whole.shape.rank() > 0;
      if (!is_scalar && !lies_alike(input)) return std::nullopt;
      (!is_scalar ? member.tensors : IsOwn(input) ? member.scalars : member.shared).push_back(input);
    }
    if (member.tensors.empty()) return std::nullopt;
    member.texts = TextsOf(node, member);
    member.key = StrCat(node.op->name, " ", Join(member.texts, "; "));
    for (const ValueId id : node.outputs) member.key += StrCat(" >", NameOf(graph_.type(id).dtype));
    for (const ValueId id : member.tensors) member.key += StrCat(" ", NameOf(graph_.type(id).dtype));
    for (const ValueId id : member.scalars) member.key += StrCat(" ", NameOf(graph_.type(id).dtype), "[]");
    for (const ValueId id : member.shared) member.key += StrCat(" ", id);
    return member;
  }

  // The node's expressions over the inputs in the member's order.
  static Strings TextsOf(const Node& node, const Member& member) {
    std::vector<ValueId> order = member.tensors;
    order.insert(order.end(), member.scalars.begin(), member.scalars.end());
    order.insert(order.end(), member.shared.begin(), member.shared.end());
    std::vector<int> places;
    for (const ValueId input : node.inputs) {
      places.push_back(static_cast<int>(std::ranges::find(order, input) - order.begin()));
    }
    const Strings texts = IsSum(node) ? Strings{node.attributes.String("expr")} : node.attributes.Get<Strings>("exprs");
    return Expression::Parse(texts).Renumber(places).Texts();
  }

  // False if no kernel takes the group; the graph is then as it was.
  bool MakeGroup(const std::vector<Member>& members) {
    const Member& first = members.front();
    const Node& model = graph_.node(first.node);
    std::vector<ValueId> inputs;
    const auto add = [&](const std::vector<ValueId>& values) {
      std::ranges::transform(values, std::back_inserter(inputs), [&](ValueId id) {
        const auto it = now_.find(id);
        return it == now_.end() ? id : it->second;
      });
    };
    std::vector<ValueId> before;  // what the members gave
    NodeOrigin origin = model.origin;
    Strings dtypes;
    for (const ValueId id : model.outputs) dtypes.emplace_back(NameOf(graph_.type(id).dtype));
    for (const Member& member : members) {
      add(member.tensors);
      add(member.scalars);
      const Node& node = graph_.node(member.node);
      before.insert(before.end(), node.outputs.begin(), node.outputs.end());
      origin.sequence = std::max(origin.sequence, node.origin.sequence);
    }
    add(first.shared);
    origin.layer = "updates";
    origin.place = {};
    const std::vector<ValueId> outputs = GraphBuilder(graph_, origin)
                                             .Add(IsSum(model) ? "reduce_group" : "pointwise_group", inputs,
                                                  {{"exprs", first.texts},
                                                   {"members", static_cast<int64_t>(members.size())},
                                                   {"scalars", static_cast<int64_t>(first.scalars.size())},
                                                   {"shared", static_cast<int64_t>(first.shared.size())},
                                                   {"dtypes", dtypes}});
    for (size_t i = 0; i < outputs.size(); ++i) graph_.SetType(outputs[i], graph_.type(before[i]));
    const NodeId group = graph_.value(outputs[0]).producer;
    if (FirstRow(graph_, group, context_.options) == nullptr) {
      graph_.RemoveNode(group);
      return false;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      graph_.ReplaceUses(before[i], outputs[i]);
      now_[before[i]] = outputs[i];
    }
    for (const Member& member : members) graph_.RemoveNode(member.node);
    return true;
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;  // as before the groups
  std::set<ValueId> assigned_;             // the same
  std::map<ValueId, int> depth_;           // possible members on the way to a value
  std::map<ValueId, ValueId> now_;         // results of members, and of the groups in their place
};

}  // namespace

bool GroupUpdates(Graph& graph, const PassContext& context) {
  if (context.options.device.is_cpu()) return false;
  return Grouper(graph, context).Run();
}

}  // namespace moka
