// Layout. Gives each value the layout its kernels want. Nodes are visited in order; each takes the first kernel whose
// proposal its refusal check accepts, or the fastest; where an input lies otherwise a reorder is inserted, once for
// each (value, layout). A state that no program has fixed yet takes the layout its first reader asks for, so weights
// stay packed between runs. A state that is assigned here and that a later reader wants otherwise gets a mirror: a
// second state in that layout, which the update writes in the same pass over memory (a convolution and its gradient
// never agree on their weights). So does a state of which readers want a half type: what they read through a cast is a
// mirror of that type. Requires: every layout plain. Ensures: final layouts; outputs plain; each assigned
// value lies as its state; the mirrors of an assigned state are assigned.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/text.h"
#include "graph/binding.h"
#include "graph/kernel_search.h"
#include "graph/op.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"
#include "graph/tracks.h"
#include "graph/widened_kernel.h"

namespace moka {
namespace {

class LayoutPass {
 public:
  LayoutPass(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  bool Run() {
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      const Value& value = graph_.value(id);
      if (value.kind != ValueKind::kState) continue;
      const bool fixed = context_.store.claims(value.name).is_layout_fixed;
      if (fixed) SetLayout(id, context_.store.type(value.name).layout);
      open_.insert_or_assign(id, !fixed);
    }
    for (const Assignment& assignment : graph_.assignments()) {
      const Value& state = graph_.value(assignment.state);
      const NodeId producer = graph_.value(assignment.value).producer;
      const bool is_update = producer != kNoId && graph_.node(producer).op->name == "pointwise";
      if (is_update && !context_.store.claims(state.name).is_written) may_mirror_.insert(assignment.state);
    }
    const std::vector<NodeId> order = graph_.TopologicalOrder();
    for (const NodeId id : order) {
      const std::vector<ValueId>& inputs = graph_.node(id).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) readers_[inputs[i]].emplace_back(id, i);
    }
    for (const NodeId id : order) Visit(id);
    may_mirror_.clear();  // an output wants the value of this moment, not what the state will be
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
    AssignMirrors();
    return RemoveDeadNodes(graph_) || changed_;  // casts that mirrors took the place of
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

  // The state that a value repeats in another type, and that may have a mirror; kNoId for other values.
  ValueId StateCast(ValueId id) const {
    const NodeId producer = graph_.value(id).producer;
    if (producer == kNoId || graph_.node(producer).op->name != "cast") return kNoId;
    const ValueId source = graph_.node(producer).inputs[0];
    return may_mirror_.contains(source) ? source : kNoId;
  }

  // The value in the layout wanted: itself, a mirror, or what a reorder made of it.
  ValueId Reordered(ValueId id, const Layout& layout, NodeOrigin origin) {
    const Layout wanted = layout.Simplified(graph_.shape(id));
    const ValueId cast_state = StateCast(id);
    if (graph_.type(id).layout == wanted && cast_state == kNoId) return id;
    const auto key = std::make_pair(id, wanted.Name(graph_.shape(id).rank()));
    const auto it = reorders_.find(key);
    if (it != reorders_.end()) return it->second;
    if (may_mirror_.contains(id) || cast_state != kNoId) {
      changed_ = true;
      const ValueId state = cast_state == kNoId ? id : cast_state;
      return reorders_.emplace(key, graph_.AddMirror(state, graph_.type(id).dtype, wanted)).first->second;
    }
    origin.pass = "layout";
    const ValueId moved = GraphBuilder(graph_, origin).Add1("reorder", {id}, {{"layout", key.second}});
    SetLayout(moved, wanted);
    reorders_.emplace(key, moved);
    return moved;
  }

  // Mirrors made here, or by a program that was compiled before, follow their states.
  void AssignMirrors() {
    const std::vector<Assignment> assignments = graph_.assignments();
    std::map<ValueId, std::vector<ValueId>> mirrors;
    for (ValueId id = 0; id < graph_.value_count(); ++id) {
      if (graph_.value(id).mirrored != kNoId) mirrors[graph_.value(id).mirrored].push_back(id);
    }
    Rewriter rewriter(graph_);
    for (size_t i = 0; i < assignments.size(); ++i) {
      const ValueId state = assignments[i].state;
      for (const std::string& name : context_.store.claims(graph_.value(state).name).mirrors) {
        const TensorType& type = context_.store.type(name);
        mirrors[state].push_back(graph_.AddMirror(state, type.dtype, type.layout));
      }
      // Read again: writing one mirror may have replaced the value.
      for (const ValueId mirror : mirrors[state]) {
        graph_.Assign(mirror, Copied(rewriter, graph_.assignments()[i].value, mirror));
      }
    }
    context_.Count(rewriter.visits());
  }

  // A value in the type of a mirror: cast as it lies, then reordered.
  ValueId Converted(ValueId id, ValueId mirror, NodeOrigin origin) {
    const TensorType& wanted = graph_.type(mirror);
    const Layout layout = wanted.layout;
    if (graph_.type(id).dtype != wanted.dtype) {
      const Layout lies = graph_.type(id).layout;
      origin.pass = "layout";
      id = GraphBuilder(graph_, origin).Add1("cast", {id}, {{"dtype", std::string(NameOf(wanted.dtype))}});
      SetLayout(id, lies);
    }
    return Reordered(id, layout, origin);
  }

  // A value once more, as the mirror lies: an output of the pointwise node that computes it, else a node of its own.
  ValueId Copied(Rewriter& rewriter, ValueId id, ValueId mirror) {
    const NodeId producer = graph_.value(id).producer;
    const Node node = producer == kNoId ? Node{} : graph_.node(producer);
    if (node.op == nullptr || node.op->name != "pointwise") return Converted(id, mirror, node.origin);
    Strings expressions = node.attributes.Get<Strings>("exprs");
    expressions.push_back(expressions[static_cast<size_t>(graph_.value(id).output_index)]);
    std::vector<TensorType> types = graph_.OutputTypes(node);
    types.push_back(graph_.type(mirror));
    Attributes attributes = node.attributes;
    attributes.Set("exprs", expressions);
    if (types.back().dtype != types.front().dtype || !node.attributes.Get<Strings>("dtypes").empty()) {
      Strings dtypes;
      for (const TensorType& type : types) dtypes.emplace_back(NameOf(type.dtype));
      attributes.Set("dtypes", dtypes);
    }
    const std::vector<ValueId> outputs = GraphBuilder(graph_, node.origin).Add("pointwise", node.inputs, attributes);
    for (size_t i = 0; i < outputs.size(); ++i) graph_.SetType(outputs[i], types[i]);
    if (!IsTaken(graph_.node(graph_.value(outputs[0]).producer))) {
      rewriter.RemoveNode(graph_.value(outputs[0]).producer);
      return Converted(id, mirror, node.origin);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) rewriter.ReplaceUses(node.outputs[i], outputs[i]);
    rewriter.RemoveNode(node.id);
    return outputs.back();
  }

  std::vector<const KernelDef*> Rows(const Node& node) const {
    return UsableKernels(graph_.catalog(), node.op->name, context_.options);
  }

  // Whether a kernel takes a node as its values lie.
  bool IsTaken(const Node& node) const {
    const std::vector<TensorType> inputs = graph_.InputTypes(node);
    const std::vector<TensorType> outputs = graph_.OutputTypes(node);
    const std::vector<const KernelDef*> kernels = Rows(node);
    const auto takes = [&](std::span<const TensorType> in, std::span<const TensorType> out) {
      const KernelQuery query = QueryOf(node, in, out, context_.options);
      return std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef* k) { return k->refuse(query).empty(); });
    };
    if (takes(inputs, outputs)) return true;
    return MayWiden(node) && takes(Widened(inputs), Widened(outputs));
  }

  // Whether half types may be widened for a row.
  bool MayWiden(const Node& node) const {
    return context_.options.device.is_cpu() && (HasHalf(graph_.InputTypes(node)) || HasHalf(graph_.OutputTypes(node)));
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

  // A row's proposal and the node's types under it, those that the row is asked about: half ones may be widened.
  struct Offer {
    const KernelDef* row;
    LayoutProposal proposal;
    std::vector<TensorType> inputs;
    std::vector<TensorType> outputs;
  };

  // None if the row does not take the node under its own proposal.
  std::optional<Offer> MakeOffer(const KernelDef& row, const Node& node, std::vector<TensorType> inputs,
                                 std::vector<TensorType> outputs) const {
    Offer offer{&row, Plain(node), std::move(inputs), std::move(outputs)};
    if (row.propose != nullptr) {
      std::optional<LayoutProposal> proposal = row.propose(Query(node, offer));
      if (!proposal) return {};
      offer.proposal = std::move(*proposal);
    }
    for (size_t i = 0; i < offer.inputs.size(); ++i) {
      offer.inputs[i].layout = offer.proposal.inputs[i].Simplified(offer.inputs[i].shape);
    }
    for (size_t i = 0; i < offer.outputs.size(); ++i) {
      offer.outputs[i].layout = offer.proposal.outputs[i].Simplified(offer.outputs[i].shape);
    }
    if (!row.refuse(Query(node, offer)).empty()) return {};
    return offer;
  }

  KernelQuery Query(const Node& node, const Offer& offer) const {
    return QueryOf(node, offer.inputs, offer.outputs, context_.options);
  }

  // The offers to choose from: the first, and behind it, where the rows are timed, those of the others.
  std::vector<Offer> Offers(const Node& node) const {
    std::vector<Offer> offers = Offers(node, graph_.InputTypes(node), graph_.OutputTypes(node));
    if (!offers.empty() || !MayWiden(node)) return offers;
    return Offers(node, Widened(graph_.InputTypes(node)), Widened(graph_.OutputTypes(node)));
  }

  std::vector<Offer> Offers(const Node& node, const std::vector<TensorType>& inputs,
                            const std::vector<TensorType>& outputs) const {
    std::vector<Offer> offers;
    for (const KernelDef* row : Rows(node)) {
      std::optional<Offer> offer = MakeOffer(*row, node, inputs, outputs);
      if (!offer) continue;
      offers.push_back(std::move(*offer));
      if (!IsSearched(node, context_.options)) break;
    }
    return offers;
  }

  static double MoveMs(const TensorType& type) {
    constexpr double kMovedBytesPerMs = 1e7;
    return 2 * static_cast<double>(type.Bytes()) / kMovedBytesPerMs;
  }

  // Whether a reader that is yet to be visited has a kernel for an input that lies like this.
  bool IsReadAs(const TensorType& type, NodeId reader, size_t input) const {
    const Node& node = graph_.node(reader);
    if (node.op->is_alias) return type.layout.is_plain();
    std::vector<TensorType> inputs = graph_.InputTypes(node);
    inputs[input].layout = type.layout;
    std::vector<Offer> offers = Offers(node, inputs, graph_.OutputTypes(node));
    if (offers.empty() && MayWiden(node)) offers = Offers(node, Widened(inputs), Widened(graph_.OutputTypes(node)));
    const auto reads = [&](const Offer& offer) { return offer.inputs[input].layout == type.layout; };
    return std::any_of(offers.begin(), offers.end(), reads);
  }

  // For moving an offer's results to where their readers want them; 0 for all where the offers agree on the results.
  double ResultMoveMs(const Node& node, const Offer& offer, const std::vector<Offer>& offers) const {
    const auto agrees = [&](const Offer& other) { return other.outputs == offer.outputs; };
    if (std::all_of(offers.begin(), offers.end(), agrees)) return 0;
    double ms = 0;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const auto readers = readers_.find(node.outputs[o]);
      if (readers == readers_.end()) continue;
      const auto reads = [&](const auto& reader) { return IsReadAs(offer.outputs[o], reader.first, reader.second); };
      if (!std::all_of(readers->second.begin(), readers->second.end(), reads)) ms += MoveMs(offer.outputs[o]);
    }
    return ms;
  }

  // The fastest offer; moving inputs that lie otherwise counts (states lie as they are asked to), and moving results.
  const Offer& Fastest(const Node& node, const std::vector<Offer>& offers) const {
    if (offers.size() == 1) return offers.front();
    std::vector<double> ms;
    for (const Offer& offer : offers) {
      // Rows that agree on the layouts are timed in turns.
      std::vector<const KernelDef*> rows = {offer.row};
      for (const Offer& other : offers) {
        const bool same = other.inputs == offer.inputs && other.outputs == offer.outputs;
        if (same && other.row != offer.row) rows.push_back(other.row);
      }
      ms.push_back(context_.options.search->Milliseconds(rows, Query(node, offer), context_.options.on_pulse)[0]);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value& input = graph_.value(node.inputs[i]);
        if (input.kind == ValueKind::kState || input.type.layout == offer.inputs[i].layout) continue;
        ms.back() += MoveMs(input.type);
      }
      ms.back() += ResultMoveMs(node, offer, offers);
    }
    return offers[KernelSearch::Best(ms)];
  }

  LayoutProposal Plain(const Node& node) const {
    return {std::vector<Layout>(node.inputs.size()), std::vector<Layout>(node.outputs.size())};
  }

  void Visit(NodeId id) {
    const Node node = graph_.node(id);  // a copy: reorders are added below
    std::optional<OneThread> alone;
    if (IsInTrack(node)) alone.emplace();
    if (!node.outputs.empty() && StateCast(node.outputs[0]) != kNoId) return;  // its readers get mirrors
    if (!node.op->is_alias) {
      const std::vector<Offer> offers = Offers(node);
      if (!offers.empty()) return Apply(node, Fastest(node, offers).proposal);
    }
    Apply(node, Plain(node));  // aliases and the reference kernel
  }

  Graph& graph_;
  const PassContext& context_;
  std::map<ValueId, std::vector<std::pair<NodeId, size_t>>> readers_;  // and which of their inputs
  std::map<ValueId, bool> open_;                                       // states whose layout is still free
  std::set<ValueId> may_mirror_;                                       // states
  std::map<std::pair<ValueId, std::string>, ValueId> reorders_;
  bool changed_ = false;
};

}  // namespace

bool AssignLayouts(Graph& graph, const PassContext& context) { return LayoutPass(graph, context).Run(); }

}  // namespace moka
