// The part shared by passes that run some of an inference net on a part of the images at a time.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace moka {

// The nodes between [begin, end) of an order, over again for every part.
class BatchParts {
 public:
  // `constant` by NodeId, as ConstantNodes() gives it with states that are constant; must outlive this.
  BatchParts(Graph& graph, const std::vector<bool>& constant) : graph_(graph), constant_(constant) {}

  // Whether the value is the same from run to run.
  bool IsFixed(ValueId id) const;
  // Whether the node makes every image of its results from the same image of its operands.
  bool IsByImage(const Node& node, int64_t images) const;

  // Replaces the nodes by `parts` copies, each on so many images in a row, between a slice of what enters and a concat
  // of what leaves (values read outside, or outputs). Slices and concats get `pass` as the pass they are from, the
  // copies too where `marks_nodes`; copies of one part follow one another in the schedule. Requires: every node
  // IsByImage(images), in an order in which producers come first; parts divides images.
  void Repeat(const std::vector<NodeId>& nodes, const std::set<ValueId>& leaving, int64_t parts, std::string_view pass,
              bool marks_nodes);

 private:
  bool HasImages(ValueId id, int64_t images) const;
  std::vector<ValueId> Slice(ValueId id, NodeOrigin origin, size_t parts) const;

  Graph& graph_;
  const std::vector<bool>& constant_;
};

}  // namespace moka
