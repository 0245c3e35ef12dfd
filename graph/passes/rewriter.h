// The knowledge of a pass that rewrites a graph: who reads each value, which values are pinned (outputs and assigned
// ones), and how far a sweep in topological order has come. The tables follow each change, so a change costs what it
// touches and no pass begins again after one. Changes go through the rewriter; nodes may also be added by a
// GraphBuilder, which it notices by itself. Lives no longer than the pass; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/graph.h"

namespace moka {

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  // How often nodes read the value.
  int reads(ValueId id);
  // The nodes that read the value, once for each read.
  std::vector<NodeId> Readers(ValueId id);
  // The only reader of a value, if it has exactly one, is no output and is not assigned; kNoId otherwise.
  NodeId OnlyUser(ValueId id);
  // Whether the value is an output or assigned.
  bool IsPinned(ValueId id);

  // As Graph's.
  void ReplaceUses(ValueId from, ValueId to);
  void RemoveNode(NodeId id);

  // Gives `rewrite` each live node, producers first, smallest (sequence, id) first among the ready. It returns whether
  // it replaced that node; the sweep then goes on with what is there, new nodes included and nodes met before left
  // out: what `rewrite` refused once it would refuse again. Returns whether anything was replaced. Requires: values
  // whose uses are replaced, and the values that replace them, come from the node given or from nodes not yet met.
  bool Sweep(const std::function<bool(NodeId)>& rewrite);

  // Nodes and table entries looked at so far: what a pass's work grows with.
  int64_t visits() const { return visits_; }

 private:
  struct Read {
    NodeId node;  // may be gone
    int input;
  };
  struct Uses {
    std::vector<Read> readers;
    std::vector<size_t> outputs;      // indices into Graph::outputs()
    std::vector<size_t> assignments;  // indices into Graph::assignments(), as the value assigned
    int reads = 0;
  };

  // A sweep's state.
  struct Front;
  void Enter(Front& front, NodeId first);
  void Leave(Front& front, NodeId id);

  // Takes in nodes, outputs and assignments that were added since.
  void Update();
  Uses& Of(ValueId id) { return uses_[static_cast<size_t>(id)]; }

  Graph& graph_;
  std::vector<Uses> uses_;  // by ValueId
  int nodes_known_ = 0;
  size_t outputs_known_ = 0;
  size_t assignments_known_ = 0;
  int64_t visits_ = 0;
};

}  // namespace moka
