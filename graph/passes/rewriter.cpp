// Keeps the uses of each value as lists that are mended with every change, and sweeps by a priority queue on the nodes'
// order, so that nodes which a rewrite adds are visited in the same sweep.
#include "graph/passes/rewriter.h"

#include <queue>
#include <utility>

namespace moka {

Rewriter::Rewriter(Graph& graph) : graph_(graph) { Update(); }

void Rewriter::Update() {
  uses_.resize(static_cast<size_t>(graph_.value_count()));
  for (; nodes_known_ < graph_.node_limit(); ++nodes_known_) {
    const std::vector<ValueId>& inputs = graph_.node(nodes_known_).inputs;  // none if the node is gone
    visits_ += 1 + static_cast<int64_t>(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      Of(inputs[i]).readers.push_back({nodes_known_, static_cast<int>(i)});
      ++Of(inputs[i]).reads;
    }
  }
  const std::vector<GraphOutput>& outputs = graph_.outputs();
  for (; outputs_known_ < outputs.size(); ++outputs_known_) {
    Of(outputs[outputs_known_].value).outputs.push_back(outputs_known_);
  }
  const std::vector<Assignment>& assignments = graph_.assignments();
  for (; assignments_known_ < assignments.size(); ++assignments_known_) {
    Of(assignments[assignments_known_].value).assignments.push_back(assignments_known_);
  }
}

int Rewriter::reads(ValueId id) {
  Update();
  return Of(id).reads;
}

bool Rewriter::IsPinned(ValueId id) {
  Update();
  return !Of(id).outputs.empty() || !Of(id).assignments.empty();
}

std::vector<NodeId> Rewriter::Readers(ValueId id) {
  Update();
  std::vector<NodeId> readers;
  for (const Read& read : Of(id).readers) {
    ++visits_;
    if (graph_.IsAlive(read.node)) readers.push_back(read.node);
  }
  return readers;
}

NodeId Rewriter::OnlyUser(ValueId id) {
  if (IsPinned(id) || reads(id) != 1) return kNoId;
  std::vector<Read>& readers = Of(id).readers;
  while (!graph_.IsAlive(readers.back().node)) {  // each is looked at once and forgotten
    ++visits_;
    readers.pop_back();
  }
  return readers.back().node;
}

void Rewriter::ReplaceUses(ValueId from, ValueId to) {
  Update();
  const Uses moved = std::exchange(Of(from), {});
  Uses& target = Of(to);
  for (const Read& read : moved.readers) {
    ++visits_;
    if (!graph_.IsAlive(read.node)) continue;
    graph_.SetInput(read.node, read.input, to);
    target.readers.push_back(read);
    ++target.reads;
  }
  for (const size_t i : moved.outputs) graph_.outputs()[i].value = to;
  for (const size_t i : moved.assignments) graph_.assignments()[i].value = to;
  target.outputs.insert(target.outputs.end(), moved.outputs.begin(), moved.outputs.end());
  target.assignments.insert(target.assignments.end(), moved.assignments.begin(), moved.assignments.end());
}

void Rewriter::RemoveNode(NodeId id) {
  Update();
  for (const ValueId input : graph_.node(id).inputs) --Of(input).reads;
  graph_.RemoveNode(id);
}

struct Rewriter::Front {
  using Key = std::pair<int32_t, NodeId>;  // sequence, id
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  std::vector<bool> met;     // by NodeId: given to the rewrite and left as it was
  std::vector<int> waiting;  // by NodeId: reads of values whose producer is not met
};

// Takes in the nodes from `first` on.
void Rewriter::Enter(Front& front, NodeId first) {
  front.met.resize(static_cast<size_t>(graph_.node_limit()), false);
  front.waiting.resize(static_cast<size_t>(graph_.node_limit()), 0);
  for (NodeId id = first; id < graph_.node_limit(); ++id) {
    if (!graph_.IsAlive(id)) continue;
    int& waiting = front.waiting[static_cast<size_t>(id)];
    for (const ValueId input : graph_.node(id).inputs) {
      const NodeId producer = graph_.value(input).producer;
      waiting += producer != kNoId && !front.met[static_cast<size_t>(producer)] ? 1 : 0;
    }
    if (waiting == 0) front.ready.emplace(graph_.node(id).origin.sequence, id);
  }
}

// The node stays: its readers wait for it no longer.
void Rewriter::Leave(Front& front, NodeId id) {
  front.met[static_cast<size_t>(id)] = true;
  for (const ValueId output : graph_.node(id).outputs) {
    for (const Read& read : Of(output).readers) {
      ++visits_;
      if (!graph_.IsAlive(read.node) || --front.waiting[static_cast<size_t>(read.node)] > 0) continue;
      front.ready.emplace(graph_.node(read.node).origin.sequence, read.node);
    }
  }
}

bool Rewriter::Sweep(const std::function<bool(NodeId)>& rewrite) {
  bool changed = false;
  Front front;
  Update();
  Enter(front, 0);
  while (!front.ready.empty()) {
    const NodeId id = front.ready.top().second;
    front.ready.pop();
    ++visits_;
    const NodeId first_new = graph_.node_limit();
    const bool replaced = rewrite(id);
    changed = changed || replaced;
    Update();
    Enter(front, first_new);
    if (!replaced) Leave(front, id);
  }
  return changed;
}

}  // namespace moka
