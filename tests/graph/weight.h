// Weights of nets in tests.
#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "graph/graph.h"
#include "graph/parameter_store.h"

namespace moka {

// A float32 state of values in [-range, range], which are a function of its name.
inline ValueId AddWeight(Graph& graph, ParameterStore& store, const std::string& name, const Shape& shape,
                         double range) {
  store.Add(name, shape);
  std::vector<float> values(static_cast<size_t>(shape.Count()));
  RandomStream random(3, StableHash(name));
  for (float& v : values) v = static_cast<float>(random.Uniform(-range, range));
  store.Set(name, values);
  return graph.AddState(name, {DType::kFloat32, shape, {}});
}

}  // namespace moka
