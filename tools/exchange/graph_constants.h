// The values of a graph that are the same in every run of a trained net: states, and what is computed of states alone.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/parameter_store.h"

namespace moka {

// Computes such values by the references of their ops, in double, when they are asked for, and keeps them. The graph
// and the store must outlive it. One thread.
class GraphConstants {
 public:
  GraphConstants(const Graph& graph, const ParameterStore& store);

  bool IsConstant(ValueId value) const;
  // Requires: IsConstant(value).
  const RefTensor& At(ValueId value);
  // The same as float32; a state's values as they are stored.
  std::vector<float> FloatsAt(ValueId value);

 private:
  const Graph& graph_;
  const ParameterStore& store_;
  std::vector<bool> nodes_;    // by NodeId
  std::vector<bool> written_;  // states that a run changes, by ValueId
  std::map<ValueId, RefTensor> values_;
};

}  // namespace moka
