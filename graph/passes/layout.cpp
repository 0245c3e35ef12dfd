// Layout. Gives each value the layout its kernels want. Nodes are visited in order; each takes the first kernel whose
// proposal its refusal check accepts; where an input lies otherwise a reorder is inserted, once for each (value,
// layout). A state that no program has fixed yet takes the layout its first reader asks for, so weights stay packed
// between runs. Requires: every layout plain. Ensures: final layouts; outputs plain; each assigned value lies as its
// state.
#include <map>
#include <utility>

#include "core/text.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace moka {
namespace {

class LayoutPass {
 public:
  LayoutPass(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  bool Run() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.kind != ValueKind::kState) continue;
      const bool fixed = context_.store.IsLayoutFixed(value.name);
      if (fixed) SetLayout(id, context_.store.type(value.name).layout);
      open_.insert_or_assign(id, !fixed);
    }
    for (const NodeId id : graph_.TopologicalOrder()) Visit(id);
    for (GraphOutput& output : graph_.outputs()) {
      output.value = Reordered(output.value, Layout{}, {{}, {}, "layout", kNoId});
    }
    for (Assignment& assignment : graph_.assignments()) {
      const Layout wanted = graph_.type(assignment.value).layout;
      if (open_[assignment.state]) TakeLayout(assignment.state, wanted);
      const NodeId producer = graph_.value(assignment.value).producer;
      NodeOrigin origin = producer == kNoId ? NodeOrigin{} : graph_.node(producer).origin;
      assignment.value = Reordered(assignment.value, graph_.type(assignment.state).layout, origin);
    }
    return changed_;
  }

 private:
  void SetLayout(ValueId id, const Layout& layout) {
    TensorType type = graph_.type(id);
    type.layout = layout.Simplified(type.shape);
    changed_ = changed_ || type != graph_.type(id);
    graph_.SetType(id, type);
  }

  // An open state takes a layout for good.
  void TakeLayout(ValueId state, const Layout& layout) {
    SetLayout(state, layout);
    open_[state] = false;
  }

  bool IsOpen(ValueId id) const {
    const auto it = open_.find(id);
    return it != open_.end() && it->second;
  }

  // The value in the layout wanted: itself, or what a reorder made of it.
  ValueId Reordered(ValueId id, const Layout& layout, NodeOrigin origin) {
    const Layout wanted = layout.Simplified(graph_.shape(id));
    if (graph_.type(id).layout == wanted) return id;
    const auto key = std::make_pair(id, wanted.Name(graph_.shape(id).rank()));
    const auto it = reorders_.find(key);
    if (it != reorders_.end()) return it->second;
    origin.pass = "layout";
    const ValueId moved = GraphBuilder(graph_, origin).Add1("reorder", {id}, {{"layout", key.second}});
    SetLayout(moved, wanted);
    reorders_.emplace(key, moved);
    return moved;
  }

  // Moves a node's inputs and outputs to the layouts proposed.
  void Apply(const Node& node, const LayoutProposal& proposal) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (IsOpen(input)) TakeLayout(input, proposal.inputs[i]);
      graph_.SetInput(node.id, static_cast<int>(i), Reordered(input, proposal.inputs[i], node.origin));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) SetLayout(node.outputs[i], proposal.outputs[i]);
  }

  // Whether a kernel takes the node under the proposal.
  bool Accepts(const KernelDef& kernel, const Node& node, const LayoutProposal& proposal) const {
    std::vector<TensorType> inputs = graph_.InputTypes(node);
    std::vector<TensorType> outputs = graph_.OutputTypes(node);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].layout = proposal.inputs[i].Simplified(inputs[i].shape);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].layout = proposal.outputs[i].Simplified(outputs[i].shape);
    return kernel.refuse({node, inputs, outputs, context_.options.deterministic}).empty();
  }

  LayoutProposal Plain(const Node& node) const {
    return {std::vector<Layout>(node.inputs.size()), std::vector<Layout>(node.outputs.size())};
  }

  void Visit(NodeId id) {
    const Node node = graph_.node(id);  // a copy: reorders are added below
    if (!node.op->is_alias) {
      const std::vector<TensorType> inputs = graph_.InputTypes(node);
      const std::vector<TensorType> outputs = graph_.OutputTypes(node);
      const KernelQuery query{node, inputs, outputs, context_.options.deterministic};
      for (const KernelDef* kernel : graph_.catalog().KernelsOf(node.op->name, context_.options.device)) {
        std::optional<LayoutProposal> proposal = Plain(node);
        if (kernel->propose != nullptr) proposal = kernel->propose(query);
        if (!proposal || !Accepts(*kernel, node, *proposal)) continue;
        Apply(node, *proposal);
        return;
      }
    }
    Apply(node, Plain(node));  // aliases and the reference kernel
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<ValueId, bool> open_;  // states whose layout is still free
  std::map<std::pair<ValueId, std::string>, ValueId> reorders_;
  bool changed_ = false;
};

}  // namespace

bool AssignLayouts(Graph& graph, const PassContext& context) { return LayoutPass(graph, context).Run(); }

}  // namespace moka
