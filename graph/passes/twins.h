// Twins of nodes, for passes that put them in their place: nodes of other ops that do the same work and some of another
// node's.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/pass.h"
#include "graph/passes/rewriter.h"

namespace moka {

class Twins {
 public:
  Twins(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  // Adds a node of another op in a node's place, with the attributes that the two ops share, `more`, and outputs of
  // these types. Its first output has the name of `named`.
  std::vector<ValueId> Add(const Node& node, const std::string& op, const std::vector<ValueId>& inputs,
                           const Attributes& more, const std::vector<TensorType>& types, ValueId named);

  // The producers of a pair's values and the nodes that they are twins of.
  struct Pair {
    NodeId first;
    NodeId first_of;
    NodeId second;
    NodeId second_of;
  };
  // Whether a pair of twins is to stand for its nodes: each is taken by the row that takes its node, as no plain loop
  // is to compute what a library does. Removes the twins, the second of which reads the first, where it is not.
  bool Keeps(const Pair& pair, Rewriter& rewriter) const;

 private:
  bool HaveOneRow(NodeId id, NodeId other) const;

  Graph& graph_;
  const PassContext& context_;
};

}  // namespace moka
