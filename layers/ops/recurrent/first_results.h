// Ops that give the first results of another op: what is left of it where nobody reads what it saves for a gradient.
#pragma once

#include <utility>
#include <vector>

#include "graph/op.h"

namespace moka {

using InferFunction = decltype(OpDef::infer);
using ReferenceFunction = decltype(OpDef::reference);

inline std::vector<TensorType> FirstTypes(std::vector<TensorType> types, size_t count) {
  types.resize(count);
  return types;
}

// The results `out` by the other op's reference, whose further ones are thrown away.
inline void FirstResults(InferFunction infer, ReferenceFunction reference, const Attributes& attributes,
                         std::span<const RefTensor> in, std::span<RefTensor> out) {
  std::vector<TensorType> inputs;
  for (const RefTensor& x : in) inputs.push_back(x.type);
  std::vector<RefTensor> all;
  for (const TensorType& type : infer(attributes, inputs)) {
    all.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.Count()))});
  }
  reference(attributes, in, all);
  for (size_t o = 0; o < out.size(); ++o) out[o].values = std::move(all[o].values);
}

}  // namespace moka
