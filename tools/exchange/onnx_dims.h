// The dimensions of an exported tensor. A net is built for a number of images; whoever runs the file chooses another.
// The net is built twice to see which dimensions follow the batch: those that differ do, and by how much an image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types.h"
#include "graph/graph.h"

namespace moka {

// A number, or so many of each image.
struct OnnxDim {
  int64_t size = 0;      // in the first of the two nets
  int64_t per_item = 0;  // 0: the number does not follow the batch

  bool follows_batch() const { return per_item != 0; }
  // "3", "N", "5*N".
  std::string ToString() const;
  friend bool operator==(const OnnxDim&, const OnnxDim&) = default;
};
using OnnxDims = std::vector<OnnxDim>;

// A net that is built for one number of images, or for two.
struct BatchedGraph {
  const Graph* graph = nullptr;
  int64_t batch = 0;
  const Graph* other = nullptr;  // null: the batch is fixed
  int64_t other_batch = 0;

  // Errors: kConfig for a dimension that follows the batch otherwise than by a factor.
  OnnxDims DimsOf(ValueId value) const;
};

// Whether the nodes of two graphs are the same but for numbers in their attributes and types.
bool HaveOneStructure(const Graph& a, const Graph& b);

// The attribute of a node that differs between the two graphs and is none of `may_differ`; empty: there is none.
std::string BatchedAttribute(const BatchedGraph& net, NodeId node, const std::vector<std::string>& may_differ);

}  // namespace moka
