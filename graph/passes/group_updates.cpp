// Group updates: on a GPU, updates that are the same expressions over tensors of their own and scalars that all read
// become one pointwise_group: a net of a hundred small parameters then has one kernel to update them.
// Requires: final layouts. Ensures: the same outputs and assignments; a grouped node's results were assigned and read
// by nobody else; some kernel takes the group. Gradients of a group live until its last one is there.
#include <algorithm>
#include <map>
#include <optional>

#include "core/text.h"
#include "graph/binding.h"
#include "graph/expression.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

// An update as a member of a group: its own tensors come first, then the scalars.
struct Member {
  NodeId node = kNoId;
  std::vector<ValueId> own;
  std::vector<ValueId> shared;
  Strings texts;
  std::string key;  // what members of one group have in common
};

class Grouper {
 public:
  Grouper(Graph& graph, const PassContext& context) : graph_(graph), context_(context), uses_(graph.Uses()) {
    is_output_.assign(static_cast<size_t>(graph.value_count()), false);
    for (const GraphOutput& output : graph.outputs()) is_output_[static_cast<size_t>(output.value)] = true;
  }

  bool Run() {
    std::map<std::string, std::vector<Member>> groups;
    for (const NodeId id : graph_.TopologicalOrder()) {
      context_.Count(1);
      if (std::optional<Member> member = AsMember(graph_.node(id))) groups[member->key].push_back(std::move(*member));
    }
    bool changed = false;
    for (const auto& [key, members] : groups) changed = (members.size() > 1 && MakeGroup(members)) || changed;
    return changed;
  }

 private:
  bool IsReadBySteps(ValueId id) const {
    return !uses_[static_cast<size_t>(id)].empty() || is_output_[static_cast<size_t>(id)];
  }

  std::optional<Member> AsMember(const Node& node) const {
    if (node.op->name != "pointwise" || node.origin.pass != "update") return std::nullopt;
    const TensorType& whole = graph_.type(node.outputs[0]);
    const auto lies_alike = [&](ValueId id) {
      return graph_.type(id).shape == whole.shape && graph_.type(id).layout == whole.layout;
    };
    if (!std::ranges::all_of(node.outputs, [&](ValueId id) { return lies_alike(id) && !IsReadBySteps(id); })) {
      return std::nullopt;
    }
    Member member;
    member.node = node.id;
    std::vector<bool> is_own;
    for (const ValueId input : node.inputs) {
      const bool is_scalar = graph_.shape(input).rank() == 0 && whole.shape.rank() > 0;
      if (!is_scalar && !lies_alike(input)) return std::nullopt;
      is_own.push_back(!is_scalar);
      (is_scalar ? member.shared : member.own).push_back(input);
    }
    if (member.own.empty()) return std::nullopt;
    std::vector<int> places;
    int own = 0;
    int shared = static_cast<int>(member.own.size());
    for (const bool is : is_own) places.push_back(is ? own++ : shared++);
    member.texts = Expression::Parse(node.attributes.Get<Strings>("exprs")).Renumber(places).Texts();
    member.key = Join(member.texts, "; ");
    for (const ValueId id : node.outputs) member.key += StrCat(" >", NameOf(graph_.type(id).dtype));
    for (const ValueId id : member.own) member.key += StrCat(" ", NameOf(graph_.type(id).dtype));
    for (const ValueId id : member.shared) member.key += StrCat(" ", id);
    return member;
  }

  // False if no kernel takes the group; the graph is then as it was.
  bool MakeGroup(const std::vector<Member>& members) {
    std::vector<ValueId> inputs;
    std::vector<ValueId> before;  // what the members gave
    NodeOrigin origin = graph_.node(members.front().node).origin;
    Strings dtypes;
    for (const ValueId id : graph_.node(members.front().node).outputs) {
      dtypes.emplace_back(NameOf(graph_.type(id).dtype));
    }
    for (const Member& member : members) {
      inputs.insert(inputs.end(), member.own.begin(), member.own.end());
      const Node& node = graph_.node(member.node);
      before.insert(before.end(), node.outputs.begin(), node.outputs.end());
      origin.sequence = std::max(origin.sequence, node.origin.sequence);
    }
    inputs.insert(inputs.end(), members.front().shared.begin(), members.front().shared.end());
    origin.layer = "updates";
    origin.place = {};
    const std::vector<ValueId> outputs = GraphBuilder(graph_, origin)
                                             .Add("pointwise_group", inputs,
                                                  {{"exprs", members.front().texts},
                                                   {"members", static_cast<int64_t>(members.size())},
                                                   {"shared", static_cast<int64_t>(members.front().shared.size())},
                                                   {"dtypes", dtypes}});
    for (size_t i = 0; i < outputs.size(); ++i) graph_.SetType(outputs[i], graph_.type(before[i]));
    const NodeId group = graph_.value(outputs[0]).producer;
    if (!IsTaken(graph_.node(group))) {
      graph_.RemoveNode(group);
      return false;
    }
    for (size_t i = 0; i < outputs.size(); ++i) graph_.ReplaceUses(before[i], outputs[i]);
    for (const Member& member : members) graph_.RemoveNode(member.node);
    return true;
  }

  bool IsTaken(const Node& node) const {
    const std::vector<TensorType> inputs = graph_.InputTypes(node);
    const std::vector<TensorType> outputs = graph_.OutputTypes(node);
    const KernelQuery query = QueryOf(node, inputs, outputs, context_.options);
    const auto rows = UsableKernels(graph_.catalog(), node.op->name, context_.options);
    return std::ranges::any_of(rows, [&](const KernelDef* row) { return row->refuse(query).empty(); });
  }

  Graph& graph_;
  const PassContext& context_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> is_output_;
};

}  // namespace

bool GroupUpdates(Graph& graph, const PassContext& context) {
  if (context.options.device.is_cpu()) return false;
  return Grouper(graph, context).Run();
}

}  // namespace moka
